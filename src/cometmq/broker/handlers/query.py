"""Messages by key and by offset, and the units of a queue."""

from dataclasses import dataclass

from cometmq.broker.filtering.expressions import NotCompiled
from cometmq.broker.filtering.filters import Filters, Wanted
from cometmq.broker.handlers.checks import Checks, has_queue
from cometmq.broker.statistics.shown_units import shown
from cometmq.broker.tables.clients import Clients
from cometmq.errors import Refused
from cometmq.protocol.bodies.heartbeat import Subscription
from cometmq.protocol.bodies.stats import QueueUnits
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.headers import query as headers
from cometmq.protocol.java.fastjson import dumps
from cometmq.protocol.limits import FRAME_SIZE_MAX
from cometmq.protocol.records.message import StoredMessage, pack_record
from cometmq.remoting.dispatch import Call, Reply
from cometmq.store.config import StoreConfig
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.extended_queue import ExtendedCode
from cometmq.store.queue.results import Unit

_BODY_SIZE_MAX = FRAME_SIZE_MAX // 2  # a frame that is too long would cost its asker the connection
_UNITS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class QueryHandlers:
    """Searches by key, by offset and by queue."""

    checks: Checks
    store: MessageStore
    filters: Filters
    clients: Clients

    async def by_key(self, call: Call, ask: headers.QueryMessageHeader) -> Reply:
        """QUERY_MESSAGE: by a key, or by the unique one."""
        count_max = ask.max_num
        if ask.unique_key_query:
            count_max = self.checks.settings.now(StoreConfig).default_query_max_num
        if count_max < 0:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"maxNum is {ask.max_num}, below 0")
        found = []
        if count_max and self.checks.topics.get(ask.topic) is not None:
            found = await self.store.search(
                ask.topic, ask.key, ask.begin_timestamp, ask.end_timestamp, count_max
            )
        # A put is in the index before it is answered, so the index is always as new as the log.
        header = headers.QueryMessageReplyHeader(
            index_last_update_timestamp=call.received_ms if found else 0,
            index_last_update_phyoffset=self.store.log_bounds[1] if found else 0,
        )
        if not found:
            return Reply(
                ResponseCode.QUERY_NOT_FOUND,
                header,
                remark="can not find message, maybe time range not correct",
            )
        return Reply(header=header, body=_joined(found))

    def by_place(self, call: Call, ask: headers.ViewMessageHeader) -> Reply:
        message = self.store.record(ask.offset)
        if message is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {ask.offset}"
            )
        return Reply(body=pack_record(message))

    async def queue(self, call: Call, ask: headers.QueryConsumeQueueHeader) -> Reply:
        """QUERY_CONSUME_QUEUE: its units, and whether a group's filter lets them pass."""
        topic = ask.topic or ""
        known = self.checks.topics.get(topic)
        if known is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"{ask.queue_id}@{topic} is not exist!")
        group = ask.consumer_group
        subscription = self._subscription(group, topic)
        wanted = await self._wanted(subscription) if subscription is not None else None
        first = end = 0
        if has_queue(known, ask.queue_id):
            first, end = self.store.bounds(topic, ask.queue_id)
        if not first <= ask.index < end:
            # No body: so is it there, and its clients know.
            return Reply(remark=f"Index {ask.index} of queue {ask.queue_id} not exist!")
        count = max(0, min(ask.count, _UNITS_MAX))
        units = self.store.units(topic, ask.queue_id, ask.index, count)
        body = QueueUnits(
            max_queue_index=end,
            min_queue_index=first,
            subscription_data=subscription,
            filter_data=self._filter_data(group, topic, subscription),
            queue_data=[shown(unit, self._passes(unit, wanted)) for unit in units],
        )
        return Reply(body=dumps(body))

    async def _wanted(self, subscription: Subscription) -> Wanted:
        """The filter of a subscription; a long one is compiled on the thread."""
        try:
            return self.filters.of(subscription)
        except NotCompiled as missing:
            await self.filters.compile(missing)
            return self.filters.of(subscription)

    def _subscription(self, group: str | None, topic: str) -> Subscription | None:
        """The subscription of a group; None without a group, or if no member subscribes."""
        online = self.clients.consumers.get(group) if group is not None else None
        return online.subscriptions.get(topic) if online is not None else None

    def _filter_data(
        self, group: str | None, topic: str, subscription: Subscription | None
    ) -> str | None:
        if group is None:
            return None
        if subscription is None:
            return f"{group}@{topic} is not online!"
        return self.filters.condition_text(group, topic) or "null"

    def _passes(self, unit: Unit, wanted: Wanted | None) -> bool:
        """Does the filter let it pass? Apache looks only at units that have an extension."""
        if wanted is None or not isinstance(unit.code, ExtendedCode):
            return False
        if wanted.tag is not None and not wanted.tag(unit.code):
            return False
        if wanted.record is None:
            return True
        message = self.store.record(unit.physical_offset)
        return message is not None and wanted.record(memoryview(pack_record(message)))


def _joined(messages: list[StoredMessage]) -> bytes:
    """As many records as fit in one response, at least one."""
    records: list[bytes] = []
    size = 0
    for record in map(pack_record, messages):
        size += len(record)
        if records and size > _BODY_SIZE_MAX:
            break
        records.append(record)
    return b"".join(records)
