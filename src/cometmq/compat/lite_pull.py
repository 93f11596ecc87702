"""Java's DefaultLitePullConsumer."""

from collections.abc import Iterable
from typing import Any

from cometmq.blocking.lite_pull import LitePullConsumer
from cometmq.client.config import LitePullConsumerConfig
from cometmq.compat.arguments import in_seconds
from cometmq.compat.messages import MessageExt
from cometmq.compat.push import MessageSelector
from cometmq.compat.queues import MessageQueue
from cometmq.compat.settings import JavaSettings
from cometmq.errors import Closed


class DefaultLitePullConsumer(JavaSettings):
    """A lite pull consumer; `setX` for every setting X of RocketMQ's, before `start`."""

    _config_class = LitePullConsumerConfig
    _can_trace = False

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._face: LitePullConsumer | None = None
        self._wanted: dict[str, MessageSelector] = {}

    def subscribe(self, topic: str, expression: str | MessageSelector = "*") -> None:
        """Subscribe to a topic, and share its queues with the group."""
        wanted = self._wanted[topic] = MessageSelector.of(expression)
        if self._face is not None:
            self._face.subscribe(topic, wanted.tags, sql=wanted.sql)

    def start(self) -> None:
        self._check_not_started()
        client, config = self._configs()
        face = LitePullConsumer(config, client=client)
        with self._beginning(face, client):
            for topic, wanted in self._wanted.items():
                face.subscribe(topic, wanted.tags, sql=wanted.sql)
        self._face = face

    def poll(self, timeout_ms: int | None = None) -> list[MessageExt]:
        """The next messages; an empty list after the timeout."""
        return [MessageExt(each) for each in self._running.poll(in_seconds(timeout_ms))]

    def assign(self, queues: Iterable[MessageQueue]) -> None:
        """Read exactly these queues."""
        self._running.assign(queues)

    def fetchMessageQueues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic."""
        return [MessageQueue.of(each) for each in self._running.fetch_queues(topic)]

    def seek(self, queue: MessageQueue, offset: int) -> None:
        self._running.seek(queue, offset)

    def seekToBegin(self, queue: MessageQueue) -> None:
        """Continue at the oldest message."""
        self._running.seek_to_begin(queue)

    def seekToEnd(self, queue: MessageQueue) -> None:
        """Continue with the next message that is sent."""
        self._running.seek_to_end(queue)

    def pause(self, queues: Iterable[MessageQueue]) -> None:
        self._running.pause(queues)

    def resume(self, queues: Iterable[MessageQueue]) -> None:
        self._running.resume(queues)

    def offsetForTimestamp(self, queue: MessageQueue, time_ms: int) -> int:
        """The offset of the message that was stored nearest to that time."""
        return self._running.offset_for_timestamp(queue, time_ms)

    def committed(self, queue: MessageQueue) -> int | None:
        """The committed offset of the group."""
        return self._running.committed(queue)

    def commitSync(self) -> None:
        """Commit all messages that were polled."""
        self._running.commit()

    def shutdown(self) -> None:
        if self._face is not None:
            self._end(self._face)

    @property
    def _running(self) -> LitePullConsumer:
        if self._face is None:
            raise Closed("the consumer is not started: call start()")
        return self._face
