"""Messages and results with Java's accessors."""

from collections.abc import Callable
from typing import Any

from cometmq.client import message as ours
from cometmq.protocol.bodies.queues import MessageQueue


class Message:
    """A message to send: `Message(topic, [tags, [keys,]] body)`, then setters."""

    def __init__(self, topic: str, *rest: Any) -> None:
        *words, body = rest or (b"",)
        tags, keys, *others = [*words, None, None][:4]
        if len(words) > 2 or others != [None] * len(others):
            raise TypeError(
                "Message(topic, body), (topic, tags, body) or (topic, tags, keys, body)"
            )
        self.topic = topic
        self.body = body
        self.tags: str | None = tags
        self.keys: str | None = keys
        self.flag = 0
        self.delay_level = 0
        self.wait = True
        self.properties: dict[str, str] = {}
        self.transaction_id: str | None = None

    def __repr__(self) -> str:
        return f"Message [topic={self.topic}, tags={self.tags}, keys={self.keys}, flag={self.flag}]"

    def getTopic(self) -> str:
        """As given."""
        return self.topic

    def setTopic(self, topic: str) -> None:
        """Another one."""
        self.topic = topic

    def getBody(self) -> bytes | str:
        """As given."""
        return self.body  # type: ignore[no-any-return]

    def setBody(self, body: bytes | str) -> None:
        """Another one."""
        self.body = body

    def getTags(self) -> str | None:
        """As given."""
        return self.tags

    def setTags(self, tags: str) -> None:
        """One tag."""
        self.tags = tags

    def getKeys(self) -> str | None:
        """As given."""
        return self.keys

    def setKeys(self, keys: str) -> None:
        """Words to look it up by."""
        self.keys = keys

    def setFlag(self, flag: int) -> None:
        """The sender's own."""
        self.flag = flag

    def setDelayTimeLevel(self, level: int) -> None:
        """Of the broker's table of delays."""
        self.delay_level = level

    def getDelayTimeLevel(self) -> int:
        """As set."""
        return self.delay_level

    def setWaitStoreMsgOK(self, wait: bool) -> None:
        """Have the broker answer once it is safe."""
        self.wait = wait

    def putUserProperty(self, name: str, value: str) -> None:
        """One of the sender's own."""
        self.properties[name] = value

    def getUserProperty(self, name: str) -> str | None:
        """As put."""
        return self.properties.get(name)

    def getTransactionId(self) -> str | None:
        """Within a transaction."""
        return self.transaction_id

    def as_sent(self) -> ours.Message:
        """Checked, and as our producers take it."""
        return ours.Message(
            self.topic,
            self.body,
            tags=self.tags or None,
            keys=self.keys or (),
            delay_level=self.delay_level,
            properties=self.properties,
            flag=self.flag,
            wait=self.wait,
        )


def _getters(table: dict[str, str]) -> Callable[[type[Any]], type[Any]]:
    """Give a class a method for each name, which returns that attribute of what it wraps."""

    def add(cls: type[Any]) -> type[Any]:
        for name, attribute in table.items():

            def get(self: Any, attribute: str = attribute) -> Any:
                return getattr(self.wrapped, attribute)

            get.__name__ = name
            get.__doc__ = f"`{attribute}`"
            setattr(cls, name, get)
        return cls

    return add


@_getters(
    {
        "getTopic": "topic",
        "getBody": "body",
        "getMsgId": "message_id",
        "getOffsetMsgId": "offset_id",
        "getTags": "tags",
        "getQueueId": "queue_id",
        "getQueueOffset": "queue_offset",
        "getBornTimestamp": "born_ms",
        "getStoreTimestamp": "stored_ms",
        "getBornHost": "born_host",
        "getStoreHost": "store_host",
        "getReconsumeTimes": "reconsume_times",
        "getFlag": "flag",
        "getProperties": "properties",
        "getBrokerName": "broker_name",
        "getDelayTimeLevel": "delay_level",
    }
)
class MessageExt:
    """A message that came; `wrapped` is the one of `cometmq`."""

    def __init__(self, wrapped: ours.ReceivedMessage) -> None:
        self.wrapped = wrapped

    def __repr__(self) -> str:
        return (
            f"MessageExt [brokerName={self.wrapped.broker_name}, queueId={self.wrapped.queue_id},"
            f" queueOffset={self.wrapped.queue_offset}, topic={self.wrapped.topic},"
            f" msgId={self.wrapped.message_id}]"
        )

    def getKeys(self) -> str | None:
        """With blanks between."""
        return " ".join(self.wrapped.keys) or None

    def getUserProperty(self, name: str) -> str | None:
        """Of the sender's own."""
        return self.wrapped.properties.get(name)

    def getProperty(self, name: str) -> str | None:
        """Of all."""
        return self.wrapped.properties.get(name)

    def getTransactionId(self) -> str:
        """Of a transaction, the unique key."""
        return self.wrapped.message_id


@_getters(
    {
        "getSendStatus": "status",
        "getMsgId": "message_id",
        "getOffsetMsgId": "offset_id",
        "getMessageQueue": "queue",
        "getQueueOffset": "queue_offset",
        "getTransactionId": "transaction_id",
        "getRegionId": "region_id",
    }
)
class SendResult:
    """What became of a send; `wrapped` is the one of `cometmq`."""

    def __init__(self, wrapped: ours.SendResult) -> None:
        self.wrapped = wrapped

    def __repr__(self) -> str:
        sent = self.wrapped
        return (
            f"SendResult [sendStatus={sent.status.value}, msgId={sent.message_id},"
            f" offsetMsgId={sent.offset_id}, messageQueue={queue_text(sent.queue)},"
            f" queueOffset={sent.queue_offset}]"
        )


def queue_text(queue: MessageQueue) -> str:
    """As Java prints it."""
    return (
        f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name},"
        f" queueId={queue.queue_id}]"
    )
