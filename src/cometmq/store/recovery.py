"""What is done when a store is opened: find where the log ends, and make again what is missing."""

import logging

import msgspec

from cometmq.protocol.message import RECORD_SIZE_MIN
from cometmq.store.checkpoint import Checkpoint
from cometmq.store.commit_log import CommitLog
from cometmq.store.dispatcher import Dispatcher, Requeueing
from cometmq.store.walk import BadBytes, GoodRecord, walk

log = logging.getLogger(__name__)

NEVER_MS = 2**62
MARGIN_MS = 3_000  # clocks step back: records this much older than the safe time are looked at too


class Recovered(msgspec.Struct, frozen=True):
    """What was found."""

    end: int
    redispatched: int
    last_stored_ms: int
    bad: tuple[BadBytes, ...]
    durable: int = 0  # the log before this offset was on disk when the store was opened


class Starts(msgspec.Struct, frozen=True):
    """From where on each part is verified or made again; None if it is as it should be."""

    log: int
    queues: int | None = None
    index: int | None = None
    unsynced: int | None = None  # what the log holds from here on may be torn; None: not known

    @property
    def first(self) -> int:
        """Where the walk begins."""
        return min(start for start in (self.log, self.queues, self.index) if start is not None)


def recover(commit_log: CommitLog, dispatcher: Dispatcher, starts: Starts) -> Recovered:
    """Verify the log, cut it after its last good record, dispatch again what is missing."""
    end, last_ms = max(starts.first, commit_log.start), 0
    bad: list[BadBytes] = []
    requeueing = None if starts.queues is None else Requeueing(dispatcher, starts.queues)
    for item in walk(commit_log, starts.first):
        at = item.offset if isinstance(item, BadBytes) else item.message.physical_offset
        if item.is_torn and starts.unsynced is not None and at >= starts.unsynced:
            log.warning("the log ends at %d: what followed was never all on disk", end)
            break
        if isinstance(item, BadBytes):
            bad.append(item)
            log.error("%d bytes of the log at %d are bad: %s", item.size, item.offset, item.reason)
            continue
        end, last_ms = at + item.size, item.message.stored_ms
        if requeueing is not None and at >= requeueing.start:
            requeueing.put(item.message, item.size)
        if starts.index is not None and at >= starts.index:
            dispatcher.index_again(item.message)
    if requeueing is None and bad:  # their units are there: they must go
        return recover(commit_log, dispatcher, msgspec.structs.replace(starts, queues=starts.first))
    if requeueing is not None:
        requeueing.finish(sum(item.size // RECORD_SIZE_MIN for item in bad))
        bad += [BadBytes(at, size, "its place is not its") for at, size in requeueing.refused]
    commit_log.cut(end)
    index_from = dispatcher.cut_index(end)
    if index_from is not None:
        for item in walk(commit_log, index_from):
            if isinstance(item, GoodRecord):
                dispatcher.index_again(item.message)
    durable = starts.unsynced
    if durable is None:
        durable = end if starts.queues is None else commit_log.start
    count = 0 if requeueing is None else requeueing.count
    return Recovered(end, count, last_ms, tuple(bad), min(durable, end))


def starts_after_crash(
    commit_log: CommitLog, checkpoint: Checkpoint, index_end: int | None
) -> Starts:
    """By the offsets of the checkpoint if it has them, else by its times."""
    newest = safe_start(commit_log, NEVER_MS)
    queues = checkpoint.queues_end
    if not commit_log.start <= queues:
        queues = safe_start(commit_log, min(checkpoint.log_ms, checkpoint.queues_ms))
    unsynced = checkpoint.log_end if checkpoint.log_end >= 0 else None
    return Starts(newest, queues, index_end, unsynced)


def safe_start(commit_log: CommitLog, safe_ms: int) -> int:
    """The newest file whose first record was stored before the safe time."""
    for file in reversed(commit_log.files):
        first = next(walk(commit_log, file.base), None)
        if isinstance(first, GoodRecord) and first.message.stored_ms < safe_ms - MARGIN_MS:
            return file.base
    return commit_log.start
