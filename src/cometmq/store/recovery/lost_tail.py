"""Log files that are missing at the end: opening needs the operator to accept the loss.

Two things know how long the log was: the checkpoint's offsets, which vouch only for what was on
disk, and the units of consume queues. Units count only after a clean stop: in a crash Apache's
broker may lose the end of the log and keep units of it. Without this check new messages would get
the queue offsets of lost ones, and consumers that are past these would never see them.
"""

import logging
from pathlib import Path

from cometmq.errors import BadState
from cometmq.seams import Disk
from cometmq.store.files import StoreFiles
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.queue.queue_table import QueueTable

log = logging.getLogger(__name__)

_UNITS_MIN = 2  # past the log's end that prove it: one may be damaged itself
_NAMED_MAX = 3


def is_loss_accepted(files: StoreFiles, disk: Disk) -> bool:
    """The operator created the file that accepts the loss."""
    return files.accepted_loss.name in disk.names(files.root)


def check_by_checkpoint(
    commit_log: CommitLog, vouched_end: int, files: StoreFiles, is_accepted: bool
) -> bool:
    """True if files are missing and the loss is accepted. Raises BadState if it is not."""
    if vouched_end <= commit_log.end:
        return False
    text = (
        f"{_named(commit_log, vouched_end)} missing: the log ends at {commit_log.end}, but"
        f" {files.checkpoint} says that records up to {vouched_end} were on disk"
    )
    return _accepted(text, files, is_accepted)


def check_by_units(
    commit_log: CommitLog, queues: QueueTable, files: StoreFiles, is_accepted: bool
) -> bool:
    """The same, for a store that was closed cleanly and whose checkpoint has no offsets."""
    if not commit_log.files:
        return False
    past = queues.units_past(commit_log.end)
    if sum(each.units for each in past.values()) < _UNITS_MIN:
        return False
    (topic, queue_id), last = max(past.items(), key=lambda item: item[1].physical_offset)
    place = last.physical_offset
    text = (
        f"{_named(commit_log, place + 1)} missing: the log ends at {commit_log.end}, but queue"
        f" {queue_id} of {topic}, which ends at {last.end}, has a message at {place} of the log"
    )
    return _accepted(text, files, is_accepted)


def _accepted(text: str, files: StoreFiles, is_accepted: bool) -> bool:
    if not is_accepted:
        raise BadState(
            f"{text}. Put the missing files back; or, to start without their messages, create the"
            f" file {files.accepted_loss} and start again"
        )
    log.error("%s. The loss is accepted by %s", text, files.accepted_loss)
    return True


def _named(commit_log: CommitLog, end: int) -> str:
    size = commit_log.file_size
    last = (end - 1) // size * size
    first = commit_log.end if commit_log.files else last
    bases = range(first, last + 1, size)
    paths: list[Path] = [commit_log.path_of(base) for base in bases[:_NAMED_MAX]]
    names = ", ".join(map(str, paths))
    if len(bases) > _NAMED_MAX:
        names += f" and {len(bases) - _NAMED_MAX} more"
    return f"{names} {'are' if len(bases) > 1 else 'is'}"
