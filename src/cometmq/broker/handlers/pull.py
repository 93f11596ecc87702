"""PULL_MESSAGE: read from a queue, and wait for it to grow when it is empty."""

import asyncio
import logging
from dataclasses import dataclass, field

from cometmq.broker.arrivals import Arrivals
from cometmq.broker.config import BrokerConfig
from cometmq.broker.filtering.expressions import NotCompiled
from cometmq.broker.filtering.filters import Filters, Wanted
from cometmq.broker.handlers.checks import Checks
from cometmq.broker.intake import Intake
from cometmq.broker.statistics.stats import Statistics
from cometmq.broker.tables.identity import Identity
from cometmq.broker.tables.offsets import ConsumerOffsets
from cometmq.errors import Refused
from cometmq.protocol.bodies.consumer import OffsetMoved
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.route import MASTER_ID
from cometmq.protocol.bodies.tables import GroupConfig
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.flags import PullFlag
from cometmq.protocol.headers.pull import PullHeader, PullReplyHeader
from cometmq.protocol.java.fastjson import dumps
from cometmq.protocol.names import OFFSET_MOVED_TOPIC
from cometmq.protocol.records.properties import DELAY, KEYS, TAGS, encode_properties
from cometmq.remoting.dispatch import Call, Outcome, Reply
from cometmq.seams import Clock
from cometmq.settings.live_settings import LiveSettings
from cometmq.store.log.new_message import NewMessage
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.reader import UNITS_SCANNED_MAX
from cometmq.store.queue.results import Found, GetStatus

log = logging.getLogger(__name__)

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
    """Reads of consumers."""

    checks: Checks
    store: MessageStore
    filters: Filters
    offsets: ConsumerOffsets
    arrivals: Arrivals
    intake: Intake
    stats: Statistics
    settings: LiveSettings
    identity: Identity
    clock: Clock
    slices: asyncio.Lock = field(default_factory=asyncio.Lock)

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
        if wanted.units_a_turn < UNITS_SCANNED_MAX:
            return self._in_slices(call, ask, group, wanted)
        found = self.store.get(  # as `_read`, without a call
            ask.topic, ask.queue_id, ask.queue_offset, ask.max_msg_nums, wanted.tag, wanted.record
        )
        if found.count and not found.from_slave:
            return self._found(ask, group, found)
        return self._answer(call, ask, group, wanted, found)

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

    async def _in_slices(
        self, call: Call, ask: PullHeader, group: GroupConfig, wanted: Wanted
    ) -> Reply:
        """A read with a costly filter: as much as any other read, in several turns of the loop."""
        offset, end = ask.queue_offset, ask.queue_offset + UNITS_SCANNED_MAX
        found = await self._read_slice(ask, offset, wanted)
        while found.status is GetStatus.NO_MATCHED_MESSAGE and found.next_offset < end:
            offset = found.next_offset
            later = await self._read_slice(ask, offset, wanted)
            if later.status not in (GetStatus.FOUND, GetStatus.NO_MATCHED_MESSAGE):
                break  # the end of the queue: what was scanned is the answer
            found = later
        outcome = self._answer(call, ask, group, wanted, found)
        return outcome if isinstance(outcome, Reply) else await outcome

    async def _read_slice(self, ask: PullHeader, offset: int, wanted: Wanted) -> Found:
        """Read one slice per turn of the loop: pulls with costly filters take turns."""
        async with self.slices:
            await asyncio.sleep(0)
            return self._read(ask, offset, wanted)

    def _answer(
        self, call: Call, ask: PullHeader, group: GroupConfig, wanted: Wanted, found: Found
    ) -> Outcome:
        if found.count:
            if found.from_slave:
                self.stats.got_from_disk(ask.consumer_group, ask.topic, ask.queue_id, found)
            return self._found(ask, group, found)
        if ask.sys_flag & _SUSPEND and _code(ask.queue_offset, found) == _NOT_FOUND:
            patience_ms = self._patience_ms(ask)
            if patience_ms > 0:
                return self._waited(call, ask, group, wanted, patience_ms)
        return self._reply(call, ask, group, found, ask.queue_offset)

    def _patience_ms(self, ask: PullHeader) -> int:
        config = self.settings.now(BrokerConfig)
        if not config.long_polling_enable:
            return config.short_polling_time_mills
        return min(ask.suspend_timeout_millis, _SUSPEND_MS_MAX)

    def _read(self, ask: PullHeader, offset: int, wanted: Wanted) -> Found:
        return self.store.get(
            ask.topic,
            ask.queue_id,
            offset,
            ask.max_msg_nums,
            wanted.tag,
            wanted.record,
            wanted.units_a_turn,
        )

    async def _waited(
        self, call: Call, ask: PullHeader, group: GroupConfig, wanted: Wanted, patience_ms: int
    ) -> Reply:
        """Until there is a message that is wanted; others are passed over without an answer."""
        deadline_ms = self.clock.monotonic_ms() + patience_ms
        offset = ask.queue_offset
        while True:
            found = await self._read_now(ask, offset, wanted)  # one may have come before
            while found.status is GetStatus.NO_MATCHED_MESSAGE:
                offset = found.next_offset
                await asyncio.sleep(0)  # there may be many that are not wanted
                found = await self._read_now(ask, offset, wanted)
            patience_ms = deadline_ms - self.clock.monotonic_ms()
            is_over = patience_ms <= 0 or self.arrivals.is_over
            if is_over or _code(offset, found) != _NOT_FOUND:
                return self._reply(call, ask, group, found, offset)
            # Damaged units may be of any message: a pull that waits for a rebuild is woken by any.
            tag = None if found.status is GetStatus.REBUILDING else wanted.tag
            await self.arrivals.wait_past(ask.topic, ask.queue_id, offset, tag, patience_ms)
            group = self.checks.readable_queue(ask.consumer_group, ask.topic, ask.queue_id)
            asked_now = await self._wanted(ask, group)
            if asked_now != wanted:  # its group subscribed anew: what was passed over may be wanted
                wanted, offset = asked_now, ask.queue_offset

    async def _read_now(self, ask: PullHeader, offset: int, wanted: Wanted) -> Found:
        if wanted.units_a_turn < UNITS_SCANNED_MAX:
            return await self._read_slice(ask, offset, wanted)
        return self._read(ask, offset, wanted)

    def _reply(
        self, call: Call, ask: PullHeader, group: GroupConfig, found: Found, offset: int
    ) -> Reply:
        if found.count:
            return self._found(ask, group, found)
        self.stats.missed()
        code = _code(offset, found)
        if code == _MOVED:
            self._tell_moved(call, ask, found)
        return Reply(code, self._header(group, found), remark=found.status.name)

    def _found(self, ask: PullHeader, group: GroupConfig, found: Found) -> Reply:
        body = b"".join(found.views)
        self.stats.got(ask.consumer_group, ask.topic, ask.queue_id, found.count, len(body))
        return Reply(_SUCCESS, self._header(group, found), body)

    def _header(self, group: GroupConfig, found: Found) -> PullReplyHeader:
        # Which node to read from next: a slave, if this one would have to go to its disk.
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

    def _tell_moved(self, call: Call, ask: PullHeader, found: Found) -> None:
        """Leave a note that a group asked for an offset which is not there any more, or not yet."""
        queue = MessageQueue(ask.topic, self.identity.name, ask.queue_id)
        note = OffsetMoved(
            consumer_group=ask.consumer_group,
            message_queue=queue,
            offset_new=found.next_offset,
            offset_request=ask.queue_offset,
        )
        message = NewMessage(
            topic=OFFSET_MOVED_TOPIC,
            queue_id=0,
            body=dumps(note),
            properties_text=encode_properties(
                {KEYS: ask.consumer_group, TAGS: ask.consumer_group, DELAY: "0"}
            ),
            born_ms=call.received_ms,
            born_host=self.identity.host,
        )
        try:
            self.intake.put(message, call.received_ms)
        except Refused as error:  # whoever reads must still learn where to read on
            log.warning("no note of a moved offset: %s", error)


def _code(offset: int, found: Found) -> int:
    if found.status is GetStatus.NO_MESSAGE_IN_QUEUE and offset == 0:
        return _NOT_FOUND
    return _CODES[found.status]
