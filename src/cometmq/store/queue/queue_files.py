"""Selects the files in a queue's folder that make up the queue, and moves the others away.

A queue is a run of files without a gap. Other files are moved to the folder `set_aside` in the
store's root, with the same relative path. No broker reads that folder. Apache's broker would
misread or refuse a queue with a gap or with a file of another size.
"""

import logging
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from cometmq.protocol.records.message import RECORD_SIZE_MIN
from cometmq.seams import Disk
from cometmq.store.log.commit_log import name_of
from cometmq.store.queue.consume_queue import NO_RECORD, UNIT_SIZE, ConsumeQueue
from cometmq.store.queue.file_runs import Write, file_bases, newest_run
from cometmq.store.recovery.manifest import Span

log = logging.getLogger(__name__)

SET_ASIDE = "set_aside"
_PAST_MAX = 1 << 44  # bytes: units that point further past the end of the log are damaged


class QueueFiles:
    """The files of all queues of one store; `folder` is `consumequeue`."""

    def __init__(self, folder: Path, file_size: int, disk: Disk) -> None:
        self._folder = folder
        self._file_size = file_size
        self._disk = disk
        self.set_aside = 0  # files moved away since the store was opened

    def run(self, folder: Path, span: Span | None) -> list[int]:
        """The start offsets of the run of files of a queue; other files are set aside.

        It is the run around the last file of the span or, without a span, the newest one.
        """
        bases = file_bases(self._disk, folder)
        found = newest_run(bases, self._file_size, None if span is None else span[1])
        for base in bases:
            if base not in found:
                self._move_aside(folder / name_of(base))
        return found

    def whole_run(self, folder: Path, bases: list[int]) -> list[int]:
        """The newest run among the files that have the right size."""
        size = self._file_size
        whole = [base for base in bases if self._disk.size(folder / name_of(base)) == size]
        return newest_run(whole, size)

    def clear(self, folder: Path, queue: ConsumeQueue, span: Span | None) -> int:
        """Remove the files of a queue that is rebuilt from the log; returns its end.

        Files outside of the newest run are set aside. The last file is removed first, so that a
        crash leaves no new gap.
        """
        bases = file_bases(self._disk, folder)
        found = self.whole_run(folder, bases)
        end = self._end(queue, found, span)
        for base in reversed(bases):
            path = folder / name_of(base)
            if base in found or not self._disk.size(path):
                self._disk.delete(path)
            else:
                self._move_aside(path)
        return end

    def _end(self, queue: ConsumeQueue, bases: list[int], span: Span | None) -> int:
        """The end of a queue that lacks files; the end of its last file if that one is missing."""
        last = span[1] if span is not None else -self._file_size
        if bases and bases[-1] >= last:
            return queue.find_end(bases[-1])
        return (last + self._file_size) // UNIT_SIZE

    def _move_aside(self, path: Path) -> None:
        """Move a file to `set_aside`. A file that cannot be moved stays and is not read."""
        to = self._folder.with_name(SET_ASIDE) / path.relative_to(self._folder.parent)
        try:
            self._disk.move(path, to)
        except OSError as error:
            log.error("%s does not fit its queue's other files, and stays: %s", path, error)
        else:
            self.set_aside += 1
            log.error("%s does not fit its queue's other files: moved to %s", path, to)


class UnitsPast(NamedTuple):
    """Units at the end of a queue whose records the log does not have."""

    end: int  # of the queue
    units: int  # how many of its last two units point past the log
    physical_offset: int  # of the last one


def units_past(queue: ConsumeQueue, last_base: int, log_end: int) -> UnitsPast | None:
    """None if the last unit points into the log, or is damaged itself."""
    end = queue.find_end(last_base)
    units = (queue.unit_on_disk(place) for place in (end - 1, end - 2) if place >= 0)
    past = [
        physical_offset
        for physical_offset, size, _ in filter(None, units)
        if log_end <= physical_offset < log_end + _PAST_MAX and RECORD_SIZE_MIN <= size < NO_RECORD
    ]
    if not past or end > past[0] // RECORD_SIZE_MIN + 1:
        return None
    return UnitsPast(end, len(past), past[0])


def write_in_order(disk: Disk, batch: list[list[Write]]) -> None:
    """Write several queues. The writes of one queue are durable one after the other.

    Otherwise a power cut could lose a file and leave the next one, and the queue would have a gap.
    """
    for round_ in zip_longest(*batch):
        disk.write_all([write for write in round_ if write is not None])
