"""Java's DefaultMQPullConsumer."""

from enum import Enum
from typing import Any

from cometmq.blocking.pull import PullConsumer
from cometmq.client import message as ours
from cometmq.client.config import PullConsumerConfig
from cometmq.compat.messages import MessageExt, getters
from cometmq.compat.push import MessageSelector
from cometmq.compat.queues import MessageQueue
from cometmq.compat.settings import JavaSettings
from cometmq.errors import Closed

_NEVER_KEPT = -1


class PullStatus(Enum):
    """The status of a pull."""

    FOUND = "FOUND"
    NO_NEW_MSG = "NO_NEW_MSG"
    NO_MATCHED_MSG = "NO_MATCHED_MSG"
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"

    def __str__(self) -> str:
        return self.value


@getters(
    {
        "getNextBeginOffset": "next_offset",
        "getMinOffset": "min_offset",
        "getMaxOffset": "max_offset",
    }
)
class PullResult:
    """The answer to a pull; `wrapped` is the one of `cometmq`."""

    def __init__(self, wrapped: ours.PullResult) -> None:
        self.wrapped = wrapped

    def __repr__(self) -> str:
        found = self.wrapped
        return (
            f"PullResult [pullStatus={found.status.value}, nextBeginOffset={found.next_offset},"
            f" minOffset={found.min_offset}, maxOffset={found.max_offset},"
            f" msgFoundList={len(found.messages)}]"
        )

    def getPullStatus(self) -> PullStatus:
        return PullStatus(self.wrapped.status.value)

    def getMsgFoundList(self) -> list[MessageExt]:
        """The messages, in the order of the queue."""
        return [MessageExt(each) for each in self.wrapped.messages]


class DefaultMQPullConsumer(JavaSettings):
    """A pull consumer; `setX` for every setting X of RocketMQ's, before `start`.

    `updateConsumeOffset` commits immediately, without an interval.
    """

    _config_class = PullConsumerConfig
    _can_trace = False

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._face: PullConsumer | None = None

    def start(self) -> None:
        self._check_not_started()
        client, config = self._configs()
        face = PullConsumer(config, client=client)
        with self._beginning(face, client):
            pass
        self._face = face

    def shutdown(self) -> None:
        if self._face is not None:
            self._end(self._face)

    def fetchSubscribeMessageQueues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic."""
        return [MessageQueue.of(each) for each in self._running.fetch_queues(topic)]

    def pull(
        self, queue: MessageQueue, wanted: str | MessageSelector | None, offset: int, count: int
    ) -> PullResult:
        """Return messages from this offset on, without waiting."""
        wish = MessageSelector.of(wanted)
        return PullResult(self._running.pull(queue, offset, count, wish.tags, sql=wish.sql))

    def pullBlockIfNotFound(
        self, queue: MessageQueue, wanted: str | MessageSelector | None, offset: int, count: int
    ) -> PullResult:
        """As `pull`; at the end of the queue, wait for a message."""
        wish = MessageSelector.of(wanted)
        return PullResult(self._running.pull_or_wait(queue, offset, count, wish.tags, sql=wish.sql))

    def fetchConsumeOffset(self, queue: MessageQueue, from_store: bool = True) -> int:
        """The committed offset of the group; -1 if it never committed."""
        kept = self._running.committed(queue)
        return _NEVER_KEPT if kept is None else kept

    def updateConsumeOffset(self, queue: MessageQueue, offset: int) -> None:
        """Commit the offset at which the group continues."""
        self._running.commit(queue, offset)

    def sendMessageBack(self, message: MessageExt, delay_level: int) -> None:
        """Let the broker redeliver it to the group later."""
        self._running.send_back(message.wrapped, delay_level)

    def searchOffset(self, queue: MessageQueue, time_ms: int) -> int:
        """The offset of the message that was stored nearest to that time."""
        return self._running.search_offset(queue, time_ms)

    def maxOffset(self, queue: MessageQueue) -> int:
        return self._running.max_offset(queue)

    def minOffset(self, queue: MessageQueue) -> int:
        return self._running.min_offset(queue)

    def earliestMsgStoreTime(self, queue: MessageQueue) -> int:
        """When the oldest message was stored."""
        return self._running.earliest_stored_ms(queue)

    def viewMessage(self, offset_id: str) -> MessageExt:
        """The message with this offset id."""
        return MessageExt(self._running.view_message(offset_id))

    @property
    def _running(self) -> PullConsumer:
        if self._face is None:
            raise Closed("the consumer is not started: call start()")
        return self._face
