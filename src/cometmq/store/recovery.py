"""What is done when a store is opened: find where the log ends, and make again what is missing."""

import logging

import msgspec

from cometmq.store.commit_log import CommitLog
from cometmq.store.dispatcher import Dispatcher
from cometmq.store.walk import BadBytes, GoodRecord, walk

log = logging.getLogger(__name__)

_MARGIN_MS = 3_000  # clocks step back: records this much older than the safe time are looked at too


class Recovered(msgspec.Struct, frozen=True):
    """What was found."""

    end: int
    redispatched: int
    last_stored_ms: int
    bad: tuple[BadBytes, ...]


class Starts(msgspec.Struct, frozen=True):
    """From where on each part is verified or made again; None if it is as it should be."""

    log: int
    queues: int | None = None
    index: int | None = None

    @property
    def first(self) -> int:
        """Where the walk begins."""
        return min(start for start in (self.log, self.queues, self.index) if start is not None)


def recover(commit_log: CommitLog, dispatcher: Dispatcher, starts: Starts) -> Recovered:
    """Verify the log, cut it after its last good record, dispatch again what is missing."""
    end, count, last_ms = starts.first, 0, 0
    bad: list[BadBytes] = []
    restarted: set[tuple[str, int]] = set()
    for item in walk(commit_log, starts.first):
        if isinstance(item, BadBytes):
            bad.append(item)
            log.error("%d bytes of the log at %d are bad: %s", item.size, item.offset, item.reason)
            continue
        at = item.message.physical_offset
        end, last_ms = at + item.size, item.message.stored_ms
        if starts.queues is not None and at >= starts.queues:
            dispatcher.queue_again(item.message, item.size, restarted)
            count += 1
        if starts.index is not None and at >= starts.index:
            dispatcher.index_again(item.message)
    commit_log.cut(end)
    return Recovered(end, count, last_ms, tuple(bad))


def safe_start(commit_log: CommitLog, safe_ms: int) -> int:
    """The newest file whose first record was stored before the safe time."""
    for file in reversed(commit_log.files):
        first = next(walk(commit_log, file.base), None)
        if isinstance(first, GoodRecord) and first.message.stored_ms < safe_ms - _MARGIN_MS:
            return file.base
    return commit_log.start
