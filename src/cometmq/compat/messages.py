"""Messages and results with Java's accessors."""

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any

from cometmq.client import message as ours
from cometmq.compat.queues import MessageQueue
from cometmq.errors import BadMessage
from cometmq.protocol.java.values import java_text
from cometmq.protocol.records.properties import (
    BUYER_ID,
    DELAY,
    KEY_SEPARATOR,
    KEYS,
    RESERVED,
    TAGS,
    WAIT,
)

_APART = {BUYER_ID, DELAY, KEYS, TAGS, WAIT}  # separate fields of `cometmq.Message`


class SendStatus(Enum):
    """How safely a broker has stored a message."""

    SEND_OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"

    def __str__(self) -> str:
        return self.value


# The arguments after the topic, by their number.
_SHAPES = {
    0: (),
    1: ("body",),
    2: ("tags", "body"),
    3: ("tags", "keys", "body"),
    5: ("tags", "keys", "flag", "body", "wait"),
}


class Message:
    """A message to send: `Message(topic, [tags, [keys, [flag,]]] body [, wait])`, with setters.

    As in Java, tags, keys, the delay level and `waitStoreMsgOK` are properties.
    """

    def __init__(self, topic: str = "", *rest: Any) -> None:
        if len(rest) not in _SHAPES:
            raise TypeError(
                "Message(topic, body), (topic, tags, body), (topic, tags, keys, body)"
                " or (topic, tags, keys, flag, body, waitStoreMsgOK)"
            )
        given = dict(zip(_SHAPES[len(rest)], rest, strict=True))
        self.topic = topic
        self.body: Any = given.get("body", b"")
        self.flag: int = given.get("flag", 0)
        self.properties: dict[str, str] = {}
        self.transaction_id: str | None = None
        if tags := given.get("tags"):
            self.setTags(tags)
        if keys := given.get("keys"):
            self.setKeys(keys)
        self.setWaitStoreMsgOK(given.get("wait", True))

    def __repr__(self) -> str:
        return (
            f"Message [topic={self.topic}, tags={self.getTags()}, keys={self.getKeys()},"
            f" flag={self.flag}]"
        )

    def getTopic(self) -> str:
        return self.topic

    def setTopic(self, topic: str) -> None:
        self.topic = topic

    def getBody(self) -> bytes | str:
        return self.body  # type: ignore[no-any-return]

    def setBody(self, body: bytes | str) -> None:
        self.body = body

    def getTags(self) -> str | None:
        return self.properties.get(TAGS)

    def setTags(self, tags: str) -> None:
        self.properties[TAGS] = tags

    def getKeys(self) -> str | None:
        return self.properties.get(KEYS)

    def setKeys(self, keys: str | Iterable[str] | None) -> None:
        """Words to look it up by."""
        self.properties[KEYS] = keys if isinstance(keys, str) else KEY_SEPARATOR.join(keys or ())

    def getFlag(self) -> int:
        return self.flag

    def setFlag(self, flag: int) -> None:
        self.flag = flag

    def setDelayTimeLevel(self, level: int) -> None:
        """Of the broker's table of delays."""
        self.properties[DELAY] = str(level)

    def getDelayTimeLevel(self) -> int:
        """As set; 0 is none."""
        return int(self.properties.get(DELAY, 0))

    def setWaitStoreMsgOK(self, wait: bool) -> None:
        """Have the broker answer once it is safe."""
        self.properties[WAIT] = java_text(wait)

    def isWaitStoreMsgOK(self) -> bool:
        return self.properties.get(WAIT, "true") == "true"

    def setBuyerId(self, buyer_id: str) -> None:
        self.properties[BUYER_ID] = buyer_id

    def getBuyerId(self) -> str | None:
        return self.properties.get(BUYER_ID)

    def putUserProperty(self, name: str, value: str) -> None:
        """Set a user property. Raises BadMessage if the name is reserved."""
        if name in RESERVED:
            raise BadMessage(f"property {name} is reserved: choose another name")
        self.properties[name] = value

    def getUserProperty(self, name: str) -> str | None:
        return self.properties.get(name)

    def getProperty(self, name: str) -> str | None:
        return self.properties.get(name)

    def getProperties(self) -> dict[str, str]:
        return self.properties

    def getTransactionId(self) -> str | None:
        return self.transaction_id

    def as_sent(self) -> ours.Message:
        """Checked, and as our producers take it."""
        own = self.properties
        return ours.Message(
            self.topic,
            self.body,
            tags=self.getTags() or None,
            keys=self.getKeys() or (),
            delay_level=self.getDelayTimeLevel(),
            properties={each: own[each] for each in own if each not in _APART},
            flag=self.flag,
            wait=self.isWaitStoreMsgOK(),
            buyer_id=self.getBuyerId(),
        )


def getters(table: dict[str, str]) -> Callable[[type[Any]], type[Any]]:
    """Add a method per name to a class, which returns an attribute of the wrapped object."""

    def add(cls: type[Any]) -> type[Any]:
        for name, attribute in table.items():

            def get(self: Any, attribute: str = attribute) -> Any:
                return getattr(self.wrapped, attribute)

            get.__name__ = name
            get.__doc__ = f"`{attribute}`"
            setattr(cls, name, get)
        return cls

    return add


@getters(
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
    """A received message; `wrapped` is the `cometmq.ReceivedMessage`."""

    def __init__(self, wrapped: ours.ReceivedMessage) -> None:
        self.wrapped = wrapped

    def __repr__(self) -> str:
        return (
            f"MessageExt [brokerName={self.wrapped.broker_name}, queueId={self.wrapped.queue_id},"
            f" queueOffset={self.wrapped.queue_offset}, topic={self.wrapped.topic},"
            f" msgId={self.wrapped.message_id}]"
        )

    def getKeys(self) -> str | None:
        return " ".join(self.wrapped.keys) or None

    def getUserProperty(self, name: str) -> str | None:
        return self.wrapped.properties.get(name)

    def getProperty(self, name: str) -> str | None:
        return self.wrapped.properties.get(name)

    def isWaitStoreMsgOK(self) -> bool:
        """Return True: brokers do not store the sender's choice, and True is the default."""
        return self.wrapped.properties.get(WAIT, "true") == "true"

    def getBornHostString(self) -> str:
        return str(self.wrapped.born_host.ip)

    def getTransactionId(self) -> str:
        """Return the id of the transaction, which is the unique key."""
        return self.wrapped.message_id


@getters(
    {
        "getMsgId": "message_id",
        "getOffsetMsgId": "offset_id",
        "getQueueOffset": "queue_offset",
        "getTransactionId": "transaction_id",
        "getRegionId": "region_id",
    }
)
class SendResult:
    """The result of a send; `wrapped` is the `cometmq.SendResult`."""

    def __init__(self, wrapped: ours.SendResult) -> None:
        self.wrapped = wrapped

    def __repr__(self) -> str:
        sent = self.wrapped
        return (
            f"SendResult [sendStatus={sent.status.value}, msgId={sent.message_id},"
            f" offsetMsgId={sent.offset_id}, messageQueue={self.getMessageQueue()},"
            f" queueOffset={sent.queue_offset}]"
        )

    def getSendStatus(self) -> SendStatus:
        return SendStatus(self.wrapped.status.value)

    def getMessageQueue(self) -> MessageQueue:
        return MessageQueue.of(self.wrapped.queue)
