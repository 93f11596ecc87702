"""Checks of a queue's files when a store is opened: are they the queue's, and is the set complete?

With a manifest its list of files is compared, and the first and the last unit that the queue had
when its bounds were listed. Without one, as after another broker, only the files themselves can be
checked. A queue that does not match is rebuilt from the log before the store serves. Units between
are checked when they are read (unit_check.py).
"""

from pathlib import Path

from cometmq.seams import Disk
from cometmq.store.log.commit_log import name_of
from cometmq.store.queue.consume_queue import UNIT_SIZE, ConsumeQueue, Judge
from cometmq.store.queue.results import UnitVerdict
from cometmq.store.recovery.manifest import Bounds, Span


def fault_of_files(disk: Disk, folder: Path, file_size: int, span: Span) -> str | None:
    """Why the files that are listed cannot be used; None if they can."""
    first, last = span
    for base in range(first, last + 1, file_size):
        path = folder / name_of(base)
        try:
            size = disk.size(path)
        except FileNotFoundError:
            return f"{path} is missing"
        if size != file_size:
            return f"{path} has {size} bytes, not {file_size}"
    return None


def fault_of_ends(
    queue: ConsumeQueue, span: Span, bounds: Bounds | None, judge: Judge, log_start: int
) -> str | None:
    """By the first and the last unit that the queue had when its bounds were listed."""
    if bounds is None or bounds.first == bounds.end:
        return None
    is_same_log = bounds.log_start == log_start
    for queue_offset in (bounds.first, bounds.end - 1):
        if queue_offset * UNIT_SIZE < span[0]:
            continue  # its file was deleted after the bounds were listed
        unit = queue.unit_on_disk(queue_offset) or (0, 0, 0)
        verdict = judge(queue.key, queue_offset, *unit[:2])
        if verdict.is_wrong or (verdict is UnitVerdict.GONE and is_same_log):
            return f"{queue.path_of(queue_offset)} does not match the log"
    return None


def lacks_files(queue: ConsumeQueue, span: Span, judge: Judge) -> bool:
    """For a queue without a manifest entry: its last file is empty, or earlier files are missing.

    Files are deleted when all their records left the log. The next file then most likely begins
    with units of such records.
    """
    first, last = span
    if queue.end * UNIT_SIZE <= last:
        return True
    unit = queue.unit_on_disk(first // UNIT_SIZE) or (0, 0, 0)
    return first > 0 and judge(queue.key, first // UNIT_SIZE, *unit[:2]) is UnitVerdict.GOOD
