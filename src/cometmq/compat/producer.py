"""DefaultMQProducer: Java's producer with Java's names, milliseconds and retries."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cometmq.blocking.producer import Producer, ProducerFace
from cometmq.client import message as ours
from cometmq.client.config import ClientConfig, ProducerConfig
from cometmq.client.fields import Seconds, Whole
from cometmq.compat.arguments import in_seconds
from cometmq.compat.callbacks import Callbacks, RequestCallback, SendCallback
from cometmq.compat.messages import Message, MessageExt, SendResult
from cometmq.compat.queues import MessageQueue
from cometmq.compat.settings import JavaSettings
from cometmq.errors import BadMessage, BadName, Closed
from cometmq.protocol.bodies import queues


class MessageQueueSelector(ABC):
    """Selects the queue of a message. A function with the same arguments can be used instead."""

    @abstractmethod
    def select(self, queues: Sequence[MessageQueue], message: Any, arg: Any) -> MessageQueue:
        """Return the queue to send to."""


Select = MessageQueueSelector | Callable[[Sequence[MessageQueue], Any, Any], MessageQueue]


@dataclass(frozen=True, kw_only=True)
class JavaProducerConfig(ProducerConfig):
    """A ProducerConfig with Java's retries: two, without delays."""

    retries: Whole = Whole(2, 0, 100)  # noqa: RUF009 - a descriptor that checks the value
    async_retries: Whole = Whole(2, 0, 100)  # noqa: RUF009
    retry_backoff: Seconds = Seconds(0)  # noqa: RUF009


class DefaultMQProducer(JavaSettings):
    """Java's DefaultMQProducer. Every setting X has a `setX`, to be called before `start`."""

    _config_class = JavaProducerConfig
    _default_group = "DEFAULT_PRODUCER"

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._face: ProducerFace[Any] | None = None
        self._callbacks = Callbacks()

    def start(self) -> None:
        """Start once. After a failure it may be called again."""
        self._check_not_started()
        client, config = self._configs()
        face = self._made(client, config)
        with self._beginning(face, client) as tracer:
            if tracer is not None:
                face.add_hook(tracer.of_sends)
        self._face = face

    def _made(self, client: ClientConfig, config: ProducerConfig) -> ProducerFace[Any]:
        return Producer(config, client=client)

    def shutdown(self) -> None:
        """Wait for the sends in flight, then disconnect."""
        try:
            if self._face is not None:
                self._end(self._face)
        finally:
            self._callbacks.close()

    def send(self, messages: Message | Sequence[Message], *rest: Any) -> SendResult | None:
        """Send: `send(message, [queue | selector, arg] [, callback] [, timeout_ms])`.

        A list of messages is sent as a batch, which takes no selector. With a callback, the call
        returns None immediately and the callback receives the result.
        """
        how = _How(rest)
        if not isinstance(messages, Message):
            return self._send_batch([each.as_sent() for each in messages], how)
        if how.callback is None:
            return SendResult(self._running.send(messages.as_sent(), **how.where(messages)))
        tell = self._callbacks.teller(how.callback, SendResult)
        try:
            self._running.send_soon(messages.as_sent(), tell, **how.where(messages))
        except (BadMessage, BadName, Closed) as error:  # as in Java, the callback receives it
            tell(error)
        return None

    def _send_batch(self, batch: list[ours.Message], how: "_How") -> SendResult | None:
        if how.selector is not None:
            raise TypeError("a batch accepts a queue, a callback and a timeout, but no selector")
        where: dict[str, Any] = {"queue": how.queue, "timeout": how.timeout}
        if how.callback is None:
            return SendResult(self._running.send_batch(batch, **where)[-1])
        tell = self._callbacks.teller(how.callback, SendResult)

        def tell_last(outcome: list[ours.SendResult] | Exception) -> None:
            tell(outcome if isinstance(outcome, Exception) else outcome[-1])

        self._running.send_batch_soon(batch, tell_last, **where)
        return None

    def sendOneway(self, message: Message, *rest: Any) -> None:
        """Send without an answer: `sendOneway(message, [queue | selector, arg])`."""
        self._running.send_oneway(message.as_sent(), **_How(rest).where(message))

    def request(self, message: Message, *rest: Any) -> MessageExt | None:
        """Send a request: `request(message, [queue | selector, arg] [, callback], timeout_ms)`.

        Returns the reply. With a callback, the call returns None immediately and the callback
        receives the reply.
        """
        how = _How(rest, RequestCallback)
        if how.callback is None:
            return MessageExt(self._running.request(message.as_sent(), **how.where(message)))
        tell = self._callbacks.teller(how.callback, MessageExt)
        self._running.request_soon(message.as_sent(), tell, **how.where(message))
        return None

    def createTopic(self, key: str, topic: str, queues: int) -> None:
        """Create a topic on all brokers that serve the topic `key`."""
        self._running.create_topic(topic, queues, like=key)

    def fetchPublishMessageQueues(self, topic: str) -> list[MessageQueue]:
        """Return the writable queues of a topic."""
        return [MessageQueue.of(each) for each in self._running.fetch_publish_queues(topic)]

    def viewMessage(self, offset_id: str) -> MessageExt:
        """Return the message with this offset id."""
        return MessageExt(self._running.view_message(offset_id))

    def maxOffset(self, queue: MessageQueue) -> int:
        """Return the offset of the next message of the queue."""
        return self._running.max_offset(queue)

    def minOffset(self, queue: MessageQueue) -> int:
        """Return the offset of the oldest message of the queue."""
        return self._running.min_offset(queue)

    @property
    def _running(self) -> ProducerFace[Any]:
        if self._face is None:
            raise Closed("the producer is not started: call start()")
        return self._face


class _How:
    """The optional arguments of a send, recognized by their types."""

    def __init__(
        self, rest: Sequence[Any], callbacks: type[SendCallback | RequestCallback] = SendCallback
    ) -> None:
        self.queue: queues.MessageQueue | None = None
        self.selector: Select | None = None
        self.arg: Any = None
        self.callback: Any = None
        self.timeout: float | None = None  # seconds
        given = list(rest)
        while given:
            one = given.pop(0)
            if isinstance(one, queues.MessageQueue):
                self.queue = one
            elif isinstance(one, callbacks):
                self.callback = one
            elif isinstance(one, MessageQueueSelector) or callable(one):
                if not given:
                    raise TypeError("a selector is followed by its argument")
                self.selector, self.arg = one, given.pop(0)
            elif isinstance(one, int):
                self.timeout = in_seconds(one)
            else:
                raise TypeError(f"a send accepts no {type(one).__name__}: {one!r}")

    def where(self, message: Message) -> dict[str, Any]:
        """Keyword arguments of our producers; a selector receives the program's own message."""
        select = self.selector
        if select is not None:
            choose = select.select if isinstance(select, MessageQueueSelector) else select
            arg = self.arg

            def chosen(queues: Sequence[queues.MessageQueue], *_: object) -> queues.MessageQueue:
                return choose([MessageQueue.of(each) for each in queues], message, arg)

            return {"selector": chosen, "timeout": self.timeout}
        return {"queue": self.queue, "timeout": self.timeout}
