"""PULL_MESSAGE: read from a queue, or wait for its next message (long polling)."""

from dataclasses import dataclass

from cometmq.broker.arrivals import Arrivals, ParkedRead
from cometmq.broker.config import BrokerConfig
from cometmq.broker.delivery.offset_moved import OffsetMovedEvents
from cometmq.broker.filtering.expressions import NotCompiled
from cometmq.broker.filtering.filtered_reads import FilteredReads
from cometmq.broker.filtering.filters import Filters, Wanted
from cometmq.broker.handlers.checks import Checks
from cometmq.broker.statistics.stats import Statistics
from cometmq.broker.tables.offsets import ConsumerOffsets
from cometmq.errors import Refused
from cometmq.protocol.bodies.route import MASTER_ID
from cometmq.protocol.bodies.tables import GroupConfig
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.flags import PullFlag
from cometmq.protocol.headers.pull import PullHeader, PullReplyHeader
from cometmq.remoting.dispatch import Call, Outcome, Reply
from cometmq.settings.live_settings import LiveSettings
from cometmq.store.queue.results import Found, GetStatus

_COMMIT_OFFSET = int(PullFlag.COMMIT_OFFSET)
_SUSPEND = int(PullFlag.SUSPEND)
_COMPILATIONS_MAX = 16  # of long expressions for one pull: a retry topic's may need several
_SUSPEND_MS_MAX = 60_000  # longer than any client waits for an answer

_SUCCESS = ResponseCode.SUCCESS.value
_NOT_FOUND = ResponseCode.PULL_NOT_FOUND.value
_MOVED = ResponseCode.PULL_OFFSET_MOVED.value
_RETRY = ResponseCode.PULL_RETRY_IMMEDIATELY.value
_CODES = {
    GetStatus.FOUND: _SUCCESS,
    GetStatus.NO_MATCHED_MESSAGE: _RETRY,
    GetStatus.MESSAGE_WAS_REMOVING: _RETRY,
    GetStatus.OFFSET_FOUND_NULL: _NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_ONE: _NOT_FOUND,
    GetStatus.OFFSET_OVERFLOW_BADLY: _MOVED,
    GetStatus.OFFSET_TOO_SMALL: _MOVED,
    GetStatus.NO_MATCHED_LOGIC_QUEUE: _MOVED,
    GetStatus.NO_MESSAGE_IN_QUEUE: _MOVED,
    GetStatus.REBUILDING: _NOT_FOUND,
}


@dataclass(frozen=True, slots=True)
class PullHandlers:
    """Answers pulls from the store, or parks them until a message arrives."""

    checks: Checks
    reads: FilteredReads
    filters: Filters
    offsets: ConsumerOffsets
    arrivals: Arrivals
    moved_events: OffsetMovedEvents
    stats: Statistics
    settings: LiveSettings

    def pull(self, call: Call, ask: PullHeader) -> Outcome:
        """PULL_MESSAGE."""
        group = self.checks.readable_queue(ask.consumer_group, ask.topic, ask.queue_id)
        if ask.max_msg_nums < 0:  # 0, which Go's pull consumer sends, returns one message
            raise Refused(ResponseCode.SYSTEM_ERROR, f"maxMsgNums is {ask.max_msg_nums}, below 0")
        try:
            wanted = self.filters.of_pull(ask, group)
        except NotCompiled as missing:
            return self._compile_and_pull(call, ask, missing)
        if self.checks.groups.get(ask.consumer_group) is None:
            self.checks.groups.keep(group)
        if ask.sys_flag & _COMMIT_OFFSET:
            self.offsets.commit(ask.consumer_group, ask.topic, ask.queue_id, ask.commit_offset)
        if wanted.is_costly:
            return self._pull_slices(call, ask, group, wanted)
        found = self.reads.read(ask, ask.queue_offset, wanted)
        if found.count and not found.from_slave:
            return self._found(ask, group, found)
        return self._answer_or_park(call, ask, group, wanted, found)

    async def _compile_and_pull(self, call: Call, ask: PullHeader, missing: NotCompiled) -> Reply:
        """A pull whose filter is long and not cached."""
        await self.filters.compile(missing)
        group = self.checks.readable_queue(ask.consumer_group, ask.topic, ask.queue_id)
        await self._wanted(ask, group)
        outcome = self.pull(call, ask)
        return outcome if isinstance(outcome, Reply) else await outcome

    async def _wanted(self, ask: PullHeader, group: GroupConfig) -> Wanted:
        """The filter of a pull, compiled on the thread if it is long."""
        for _ in range(_COMPILATIONS_MAX):
            try:
                return self.filters.of_pull(ask, group)
            except NotCompiled as missing:
                await self.filters.compile(missing)
        raise Refused(ResponseCode.SYSTEM_BUSY, "too many long filters are in use; try later")

    async def _pull_slices(
        self, call: Call, ask: PullHeader, group: GroupConfig, wanted: Wanted
    ) -> Reply:
        """A pull with a costly filter."""
        found = await self.reads.read_slices(ask, wanted)
        outcome = self._answer_or_park(call, ask, group, wanted, found)
        return outcome if isinstance(outcome, Reply) else await outcome

    def _answer_or_park(
        self, call: Call, ask: PullHeader, group: GroupConfig, wanted: Wanted, found: Found
    ) -> Outcome:
        """Runs in the turn that read `found`, as parking requires (arrivals.py)."""
        if found.count:
            if found.from_slave:
                self.stats.got_from_disk(ask.consumer_group, ask.topic, ask.queue_id, found)
            return self._found(ask, group, found)
        if ask.sys_flag & _SUSPEND and _code(ask.queue_offset, found) == _NOT_FOUND:
            deadline_ms = self.arrivals.deadline_ms(self._patience_ms(ask))
            if self.arrivals.may_park(deadline_ms):
                parked = self._park(ask, ask.queue_offset, wanted, found, deadline_ms)
                return self._answer_when_woken(call, ask, wanted, parked, deadline_ms)
        return self._reply(call, ask, group, found, ask.queue_offset)

    def _patience_ms(self, ask: PullHeader) -> int:
        config = self.settings.now(BrokerConfig)
        if not config.long_polling_enable:
            return config.short_polling_time_mills
        return min(ask.suspend_timeout_millis, _SUSPEND_MS_MAX)

    def _park(
        self, ask: PullHeader, offset: int, wanted: Wanted, found: Found, deadline_ms: int
    ) -> ParkedRead:
        # A rebuild may restore units of any tag, so it wakes every pull that waits for it.
        tag = None if found.status is GetStatus.REBUILDING else wanted.tag
        return self.arrivals.park(ask.topic, ask.queue_id, offset, tag, deadline_ms)

    async def _answer_when_woken(
        self, call: Call, ask: PullHeader, wanted: Wanted, parked: ParkedRead, deadline_ms: int
    ) -> Reply:
        """Answer with the first wanted message, or at the deadline. Skips unwanted messages."""
        while True:
            await parked.wait()
            offset = parked.offset
            group = self.checks.readable_queue(ask.consumer_group, ask.topic, ask.queue_id)
            wanted_now = await self._wanted(ask, group)
            if wanted_now != wanted:  # a new subscription may want messages that were skipped
                wanted, offset = wanted_now, ask.queue_offset
            found, offset = await self.reads.skip_unwanted(ask, offset, wanted)
            if found.count:
                return self._found(ask, group, found)
            if _code(offset, found) != _NOT_FOUND or not self.arrivals.may_park(deadline_ms):
                return self._reply(call, ask, group, found, offset)
            parked = self._park(ask, offset, wanted, found, deadline_ms)

    def _reply(
        self, call: Call, ask: PullHeader, group: GroupConfig, found: Found, offset: int
    ) -> Reply:
        if found.count:
            return self._found(ask, group, found)
        self.stats.missed()
        code = _code(offset, found)
        if code == _MOVED:
            self.moved_events.store(ask, found.next_offset, call.received_ms)
        return Reply(code, self._header(group, found), remark=found.status.name)

    def _found(self, ask: PullHeader, group: GroupConfig, found: Found) -> Reply:
        body = b"".join(found.views)
        self.stats.got(ask.consumer_group, ask.topic, ask.queue_id, found.count, len(body))
        return Reply(_SUCCESS, self._header(group, found), body)

    def _header(self, group: GroupConfig, found: Found) -> PullReplyHeader:
        # Suggests a slave for the next pull if this broker would have to read from its disk.
        suggested = MASTER_ID
        if self.settings.now(BrokerConfig).slave_read_enable:
            slowly = found.from_slave
            suggested = group.which_broker_when_consume_slowly if slowly else group.broker_id
        return PullReplyHeader(
            suggest_which_broker_id=suggested,
            next_begin_offset=found.next_offset,
            min_offset=found.min_offset,
            max_offset=found.max_offset,
        )


def _code(offset: int, found: Found) -> int:
    if found.status is GetStatus.NO_MESSAGE_IN_QUEUE and offset == 0:
        return _NOT_FOUND
    return _CODES[found.status]
