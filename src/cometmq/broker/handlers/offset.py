"""Consumer offsets, bounds of queues, offsets by time."""

from dataclasses import dataclass

from cometmq.broker.handlers.checks import Checks, has_queue
from cometmq.broker.tables.offsets import ConsumerOffsets
from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.headers import offset as headers
from cometmq.protocol.names import check_group, check_topic
from cometmq.remoting.dispatch import Call, Reply
from cometmq.store.message_store import MessageStore


@dataclass(frozen=True, slots=True)
class OffsetHandlers:
    """Consumer offsets of groups, first and end offsets of queues."""

    checks: Checks
    offsets: ConsumerOffsets
    store: MessageStore

    def query(self, call: Call, ask: headers.QueryOffsetHeader) -> Reply:
        offset = self.offsets.get(ask.consumer_group, ask.topic, ask.queue_id)
        if offset is None:
            first, _ = self._bounds(ask.topic, ask.queue_id)
            is_known = self._is_known(ask.topic, ask.queue_id)
            if is_known and (first > 0 or not self.store.is_hot(ask.topic, ask.queue_id, 0)):
                raise Refused(
                    ResponseCode.QUERY_NOT_FOUND,
                    f"Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first: "
                    f"{ask.consumer_group} has no offset in {ask.topic} queue {ask.queue_id}",
                )
            offset = 0  # a young queue is read from its beginning
        return _offset(offset)

    def update(self, call: Call, ask: headers.UpdateOffsetHeader) -> Reply:
        """UPDATE_CONSUMER_OFFSET: an unknown queue is no error, and its offset is not stored."""
        check_group(ask.consumer_group)
        check_topic(ask.topic)
        # Else a late commit would restore the offset of a deleted topic, and a group would skip
        # messages of a new topic of that name.
        if self._is_known(ask.topic, ask.queue_id):
            self.offsets.commit(ask.consumer_group, ask.topic, ask.queue_id, ask.commit_offset)
        return Reply()

    def first(self, call: Call, ask: headers.QueueHeader) -> Reply:
        return _offset(self._bounds(ask.topic, ask.queue_id)[0])

    def end(self, call: Call, ask: headers.QueueHeader) -> Reply:
        return _offset(self._bounds(ask.topic, ask.queue_id)[1])

    def by_time(self, call: Call, ask: headers.SearchOffsetHeader) -> Reply:
        if not self._is_known(ask.topic, ask.queue_id):
            return _offset(0)
        return _offset(self.store.offset_by_time(ask.topic, ask.queue_id, ask.timestamp))

    def earliest(self, call: Call, ask: headers.QueueHeader) -> Reply:
        time_ms = -1
        if self._is_known(ask.topic, ask.queue_id):
            time_ms = self.store.earliest_ms(ask.topic, ask.queue_id)
        return Reply(header=headers.StoreTimeReplyHeader(timestamp=time_ms))

    def _bounds(self, topic: str, queue_id: int) -> tuple[int, int]:
        return self.store.bounds(topic, queue_id) if self._is_known(topic, queue_id) else (0, 0)

    def _is_known(self, topic: str, queue_id: int) -> bool:
        """An unknown queue is answered as an empty one, and is not looked for on disk."""
        found = self.checks.topics.get(topic)
        return found is not None and has_queue(found, queue_id)


def _offset(offset: int) -> Reply:
    return Reply(header=headers.OffsetReplyHeader(offset=offset))
