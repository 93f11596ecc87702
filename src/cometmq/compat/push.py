"""Java's DefaultMQPushConsumer and its listeners."""

import logging
from collections.abc import Callable
from enum import Enum
from typing import Any

from cometmq.blocking.push import PushConsumer
from cometmq.client.callables import check_callable
from cometmq.client.config import PushConsumerConfig
from cometmq.client.consumer.shared.outcomes import Ack, Commit, Outcome, Retry, Rollback, Suspend
from cometmq.client.message import ReceivedMessage
from cometmq.compat.messages import MessageExt
from cometmq.compat.queues import MessageQueue
from cometmq.compat.settings import JavaSettings
from cometmq.errors import BadSetting

log = logging.getLogger(__name__)

_ALL = 2**31 - 1  # the default ack index, as in Java
_AS_SET = -1  # the default suspension


class ConsumeConcurrentlyStatus(Enum):
    """The result of a concurrent listener."""

    CONSUME_SUCCESS = "CONSUME_SUCCESS"
    RECONSUME_LATER = "RECONSUME_LATER"


class ConsumeOrderlyStatus(Enum):
    """The result of an orderly listener."""

    SUCCESS = "SUCCESS"
    SUSPEND_CURRENT_QUEUE_A_MOMENT = "SUSPEND_CURRENT_QUEUE_A_MOMENT"
    COMMIT = "COMMIT"
    ROLLBACK = "ROLLBACK"


class ConsumeConcurrentlyContext:
    """Details that a listener may set in addition to its status."""

    def __init__(self, message: ReceivedMessage) -> None:
        self.messageQueue = MessageQueue.of(message.queue)
        self.ackIndex = _ALL
        self.delayLevelWhenNextConsume = 0

    def getMessageQueue(self) -> MessageQueue:
        return self.messageQueue

    def getAckIndex(self) -> int:
        """The index that was set; by default the largest int of Java."""
        return self.ackIndex

    def setAckIndex(self, index: int) -> None:
        """Set the index of the last consumed message of the list."""
        self.ackIndex = index

    def getDelayLevelWhenNextConsume(self) -> int:
        """The delay level that was set; 0 lets the broker choose."""
        return self.delayLevelWhenNextConsume

    def setDelayLevelWhenNextConsume(self, level: int) -> None:
        """Set the delay level of the redelivery; -1 makes dead letters."""
        self.delayLevelWhenNextConsume = level


class ConsumeOrderlyContext:
    """Details that a listener may set in addition to its status."""

    def __init__(self, message: ReceivedMessage) -> None:
        self.messageQueue = MessageQueue.of(message.queue)
        self.autoCommit = True
        self.suspendCurrentQueueTimeMillis = _AS_SET

    def getMessageQueue(self) -> MessageQueue:
        return self.messageQueue

    def isAutoCommit(self) -> bool:
        return self.autoCommit

    def setAutoCommit(self, auto_commit: bool) -> None:
        """If False, messages are consumed when the listener returns COMMIT."""
        self.autoCommit = auto_commit

    def getSuspendCurrentQueueTimeMillis(self) -> int:
        """The time that was set; -1 means the consumer's setting."""
        return self.suspendCurrentQueueTimeMillis

    def setSuspendCurrentQueueTimeMillis(self, ms: int) -> None:
        """Set how long the queue is suspended before the redelivery."""
        self.suspendCurrentQueueTimeMillis = ms


class _Listener:
    def __init__(self, consume: Callable[[list[MessageExt], Any], Any] | None = None) -> None:
        if consume is None and type(self).consumeMessage is _Listener.consumeMessage:
            raise BadSetting("override consumeMessage, or give a function")
        if consume is not None:
            check_callable("a listener", consume, "a list of messages", "a context")
        self._consume = consume

    def consumeMessage(self, messages: list[MessageExt], context: Any) -> Any:
        """Process the messages and return a status."""
        assert self._consume is not None, "or it is overridden"
        return self._consume(messages, context)


class MessageListenerConcurrently(_Listener):
    """Subclass it, or give it a function."""


class MessageListenerOrderly(_Listener):
    """Subclass it, or give it a function."""


class MessageSelector:
    """An expression, and its kind."""

    def __init__(self, *, tags: str = "*", sql: str | None = None) -> None:
        self.tags = tags
        self.sql = sql

    @classmethod
    def of(cls, expression: "str | MessageSelector | None") -> "MessageSelector":
        """A selector from what Java's methods accept: a selector, tags, or null for all."""
        if isinstance(expression, MessageSelector):
            return expression
        return cls() if expression is None else cls(tags=expression)

    @classmethod
    def bySql(cls, sql: str) -> "MessageSelector":
        return cls(sql=sql)

    @classmethod
    def byTag(cls, tags: str) -> "MessageSelector":
        return cls(tags=tags)


class DefaultMQPushConsumer(JavaSettings):
    """A push consumer; `setX` for every setting X of RocketMQ's, before `start`."""

    _config_class = PushConsumerConfig

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._face: PushConsumer | None = None
        self._wanted: dict[str, MessageSelector] = {}
        self._listener: _Listener | None = None

    def subscribe(self, topic: str, expression: str | MessageSelector = "*") -> None:
        """Subscribe to a topic."""
        wanted = self._wanted[topic] = MessageSelector.of(expression)
        if self._face is not None:
            self._face.subscribe(topic, wanted.tags, sql=wanted.sql)

    def unsubscribe(self, topic: str) -> None:
        """Unsubscribe from a topic."""
        self._wanted.pop(topic, None)
        if self._face is not None:
            self._face.unsubscribe(topic)

    def registerMessageListener(
        self, listener: _Listener | Callable[[list[MessageExt], Any], Any]
    ) -> None:
        """Before `start`. A plain function is a concurrent listener."""
        self._listener = (
            listener if isinstance(listener, _Listener) else MessageListenerConcurrently(listener)
        )

    def start(self) -> None:
        self._check_not_started()
        listener = self._listener
        if listener is None:
            raise BadSetting("a push consumer needs registerMessageListener")
        client, config = self._configs()
        face = PushConsumer(config, client=client)
        is_list = config.consume_message_batch_max_size > 1
        with self._beginning(face, client) as tracer:
            if tracer is not None:
                face.add_hook(tracer.of_consumption(config.group))
            for topic, wanted in self._wanted.items():
                face.subscribe(topic, wanted.tags, sql=wanted.sql)
            if isinstance(listener, MessageListenerOrderly):
                # A Java listener chooses autoCommit in each call, so commits are manual here.
                face.listen(_orderly(listener, is_list), orderly=True, manual_commit=True)
            else:
                face.listen(_concurrent(listener, is_list))
        self._face = face

    def suspend(self) -> None:
        if self._face is not None:
            self._face.suspend()

    def resume(self) -> None:
        if self._face is not None:
            self._face.resume()

    def shutdown(self) -> None:
        if self._face is not None:
            self._end(self._face)


def _concurrent(listener: _Listener, is_list: bool) -> Callable[[Any], Outcome]:
    def handle(given: Any) -> Outcome:
        messages: list[ReceivedMessage] = given if is_list else [given]
        context = ConsumeConcurrentlyContext(messages[0])
        status = listener.consumeMessage([MessageExt(each) for each in messages], context)
        if status is ConsumeConcurrentlyStatus.CONSUME_SUCCESS:
            if context.ackIndex == _ALL:
                return Ack()
            return Ack(context.ackIndex + 1, context.delayLevelWhenNextConsume)
        if status is not ConsumeConcurrentlyStatus.RECONSUME_LATER:
            log.error("a listener returned %r, which counts as RECONSUME_LATER", status)
        return Retry(context.delayLevelWhenNextConsume)

    return handle


def _orderly(listener: _Listener, is_list: bool) -> Callable[[Any], Outcome]:
    def handle(given: Any) -> Outcome:
        messages: list[ReceivedMessage] = given if is_list else [given]
        context = ConsumeOrderlyContext(messages[0])
        status = listener.consumeMessage([MessageExt(each) for each in messages], context)
        match status:
            case ConsumeOrderlyStatus.SUCCESS:
                return Commit() if context.autoCommit else Ack()
            case ConsumeOrderlyStatus.COMMIT:
                return Commit()
            case ConsumeOrderlyStatus.ROLLBACK:
                return Rollback()
        if status is not ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT:
            log.error("a listener returned %r: its queue is suspended", status)
        wait_ms = context.suspendCurrentQueueTimeMillis
        return Suspend(None if wait_ms == _AS_SET else max(wait_ms, 0) / 1000)

    return handle
