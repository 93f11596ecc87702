"""Recovery: find the end of the log, and rebuild missing units and keys from it."""

import logging
from pathlib import Path

import msgspec

from cometmq.protocol.records.message import RECORD_SIZE_MIN
from cometmq.store.index.index import Index
from cometmq.store.index.tag_and_keys import tag_code_and_keys
from cometmq.store.log.commit_log import CommitLog
from cometmq.store.log.walk import BadBytes, walk
from cometmq.store.queue.queue_table import Key, QueueTable
from cometmq.store.recovery.checkpoint import Checkpoint
from cometmq.store.recovery.disputes import settle
from cometmq.store.recovery.rebuild import TRANSACTION, UNQUEUED, Coder, QueueRebuilder, Reindexing

log = logging.getLogger(__name__)

NEVER = 2**62  # an offset or a time after all others
MARGIN_MS = 3_000  # clocks step back: records this much older than the safe time are verified too


class Recovered(msgspec.Struct, frozen=True):
    """The result of a recovery."""

    end: int
    redispatched: int
    last_stored_ms: int
    bad: tuple[BadBytes, ...]
    durable: int = 0  # the log before this offset was on disk when the store was opened
    stale: tuple[Path, ...] = ()  # files of units whose records left the log
    vouched: int = 0  # and so were units and keys before this one
    rebuilt_queues: int = 0  # from the beginning: their units were missing or wrong


class Starts(msgspec.Struct, frozen=True):
    """The offset from which each part is verified or rebuilt; None if it is complete."""

    log: int
    queues: int | None = None
    index: int | None = None
    unsynced: int | None = None  # the log may be torn from here on; None: unknown
    lost: frozenset[tuple[str, int]] = frozenset()  # queues that are rebuilt from the beginning
    last_stored_ms: int = 0  # of the last record before `log`, if it is known

    def first(self, log_start: int) -> int:
        """The offset at which the walk begins."""
        if self.lost:
            return log_start
        starts = [start for start in (self.log, self.queues, self.index) if start is not None]
        return max(log_start, min(starts))


class RecoveryParts(msgspec.Struct, frozen=True):
    """The parts of a store that are recovered."""

    log: CommitLog
    queues: QueueTable
    index: Index | None
    coder: Coder | None


def recover(parts: RecoveryParts, starts: Starts, moved: tuple[BadBytes, ...] = ()) -> Recovered:
    """Verify the log, cut it after its last good record, and rebuild missing units and keys.

    If a record was `moved` to another queue it is all done once more, and not a third time.
    """
    commit_log = parts.log
    first = starts.first(commit_log.start)
    requeueing = QueueRebuilder(parts.queues, NEVER if starts.queues is None else starts.queues)
    end, last_ms, bad = _dispatch_again(parts, starts, requeueing)
    if starts.queues is None and bad:  # their units are there: they must go
        return recover(parts, msgspec.structs.replace(starts, queues=first), moved)
    requeueing.finish(sum(item.size // RECORD_SIZE_MIN for item in bad))
    odd = _with_bad_units(parts, starts, requeueing)
    if odd:
        requeueing.undo()
        parts.queues.clear(starts.lost | odd)
        return recover(parts, msgspec.structs.replace(starts, lost=starts.lost | odd), moved)
    if not moved and (moved := settle(commit_log, parts.queues, requeueing.disputes)):
        requeueing.undo()
        parts.queues.clear(starts.lost)
        _forget_keys(parts, starts, min(item.offset for item in moved))
        return recover(parts, starts, moved)
    bad += [BadBytes(at, size, "its place is not its") for at, size in requeueing.refused]
    bad += moved
    commit_log.cut(end)
    commit_log.trusted_from = starts.log if starts.queues is None else starts.queues
    _cut_index(parts, end)
    parts.queues.restore_ends(end)
    durable = starts.unsynced
    if durable is None:
        durable = end if starts.queues is None else commit_log.start
    _rewrite(commit_log, max(durable, first), end)
    vouched = end if starts.queues is None else min(starts.queues, end)
    return Recovered(
        end,
        requeueing.count,
        last_ms,
        tuple(bad),
        min(durable, end),
        tuple(requeueing.stale_files()),
        commit_log.start if starts.lost else vouched,
        len(starts.lost),
    )


def _with_bad_units(
    parts: RecoveryParts, starts: Starts, requeueing: QueueRebuilder
) -> frozenset[Key]:
    """Queues whose older units do not go on where the walked records do: made again from all.

    Not if all is walked: then it is the log that is damaged.
    """
    if starts.queues is not None and starts.queues <= parts.log.start:
        return frozenset()
    ends = {key: parts.queues.get(*key).end for key in requeueing.passed}
    short = {key for key, end in ends.items() if end <= requeueing.passed[key]}
    odd = frozenset(requeueing.odd | short) - starts.lost
    for topic, queue_id in odd:
        log.error(
            "queue %d of %s does not match the log: it is rebuilt from the log", queue_id, topic
        )
    return odd


def _dispatch_again(
    parts: RecoveryParts, starts: Starts, requeueing: QueueRebuilder
) -> tuple[int, int, list[BadBytes]]:
    """One walk; returns the end of the log, the time of its last record, and the bad bytes."""
    first = end = starts.first(parts.log.start)
    last_ms, unsynced = starts.last_stored_ms, starts.unsynced
    queues_from = NEVER if starts.queues is None else starts.queues
    index_from = NEVER if starts.index is None else starts.index
    reindexing = None if parts.index is None else Reindexing(parts.index)
    lost, coder, deleted = starts.lost, parts.coder, parts.queues.deleted
    bad: list[BadBytes] = []
    for item in walk(parts.log, first, unsynced):
        if isinstance(item, BadBytes):
            if item.is_torn and unsynced is not None and item.offset >= unsynced:
                log.warning("the log ends at %d: what followed was never all on disk", end)
                break
            bad.append(item)
            log.error("%d bytes of the log at %d are bad: %s", item.size, item.offset, item.reason)
            continue
        offset, size, topic, queue_id, queue_offset, sys_flag, stored_ms, text, is_torn = item
        if is_torn and unsynced is not None and offset >= unsynced:
            log.warning("the log ends at %d: what followed was never all on disk", end)
            break
        end, last_ms = offset + size, stored_ms
        code, keys = tag_code_and_keys(text)
        if keys and offset >= index_from and reindexing is not None:
            reindexing.put(topic, keys, offset, stored_ms)
        if sys_flag & TRANSACTION in UNQUEUED or (deleted and offset < deleted.get(topic, 0)):
            continue
        if offset >= queues_from or (topic, queue_id) in lost:
            if coder is not None:
                code = coder(topic, text, code, stored_ms)
            requeueing.put(topic, queue_id, queue_offset, offset, size, code)
        elif offset >= starts.log:
            requeueing.passed[topic, queue_id] = queue_offset
    if reindexing is not None:
        reindexing.finish()
    return end, last_ms, bad


def _rewrite(commit_log: CommitLog, start: int, end: int) -> None:
    """Have all of a stretch synced by the next flush, though the kernel may take it for synced.

    A process whose sync failed was killed: what is read here may be in memory alone, for ever.
    """
    for file in commit_log.files:
        if start < file.end and file.base < end:
            file.region.rewrite(max(start - file.base, 0), end - file.base)


def _forget_keys(parts: RecoveryParts, starts: Starts, offset: int) -> None:
    """From a record on whose topic changed, as far as they were just put, and will be again."""
    if parts.index is not None and starts.index is not None:
        parts.index.cut(max(offset, starts.index))


def _cut_index(parts: RecoveryParts, log_end: int) -> None:
    """Forget keys of what the log lost, and put again those that went with them."""
    index = parts.index
    if index is None or index.end_offset < log_end:
        return
    index.cut(log_end)
    reindexing = Reindexing(index)
    for item in walk(parts.log, max(index.end_offset, parts.log.start)):
        if not isinstance(item, BadBytes):
            offset, _, topic, _, _, _, stored_ms, text, _ = item
            reindexing.put(topic, tag_code_and_keys(text)[1], offset, stored_ms)
    reindexing.finish()


def starts_after_crash(
    commit_log: CommitLog, checkpoint: Checkpoint, index_end: int | None
) -> Starts:
    """Use the offsets of the checkpoint if it has them, otherwise its times."""
    queues = checkpoint.queues_end
    if queues < commit_log.start:
        queues = safe_start(commit_log, min(checkpoint.log_ms, checkpoint.queues_ms))
    if checkpoint.log_end < 0:
        return Starts(safe_start(commit_log, NEVER), queues, index_end)
    end = checkpoint.log_end
    return Starts(end, queues, index_end, unsynced=end, last_stored_ms=checkpoint.log_ms)


def safe_start(commit_log: CommitLog, safe_ms: int) -> int:
    """The newest file whose first record was stored before the safe time."""
    for file in reversed(commit_log.files):
        first = next(walk(commit_log, file.base, unsynced=file.base), None)
        if isinstance(first, tuple) and first[6] < safe_ms - MARGIN_MS:
            return file.base
    return commit_log.start
