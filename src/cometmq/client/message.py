"""A message to send, and the results of sends and pulls."""

from collections.abc import Iterable, Mapping
from enum import Enum
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import force_setattr

from cometmq.client.received import SHARDING_KEY as SHARDING_KEY
from cometmq.client.received import ReceivedMessage as ReceivedMessage
from cometmq.errors import BadMessage, BadName
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.limits import PROPERTIES_SIZE_MAX
from cometmq.protocol.names import CLOSED_TOPICS, check_topic
from cometmq.protocol.records import properties as names

_NO_PROPERTIES: Mapping[str, str] = MappingProxyType({})
_TOPICS_KNOWN_MAX = 4096


class Message(msgspec.Struct, frozen=True):
    """A message to send. It is immutable.

    Attributes:
        topic: The topic, without a namespace.
        body: The content. A `str` is encoded as UTF-8; an empty body is rejected.
        tags: One tag, by which consumers filter.
        keys: Business keys, by which the message can be queried; a string with spaces, or a list
            of words.
        delay_level: Delays the delivery by an entry of the broker's table of delays: 1 is the
            first entry, with the default table 1 second; 0: no delay.
        properties: User properties, strings by name.
        flag: A 32-bit integer for the application. RocketMQ does not use it.
        wait: True: the broker answers after it flushed and replicated the message as its settings
            say. False: it answers as soon as the message is in memory.
        sharding_key: Messages with the same key go to the same queue.
        buyer_id: RocketMQ's BUYER_ID property.

    Raises:
        BadMessage: A value cannot be sent; the text says what to change.
    """

    # A Struct is created in C; a frozen dataclass of ten fields takes 1.8 us more.
    topic: str
    body: bytes
    tags: str | None = None
    keys: tuple[str, ...] = ()
    delay_level: int = 0
    properties: Mapping[str, str] = _NO_PROPERTIES
    flag: int = 0
    wait: bool = True
    sharding_key: str | None = None
    buyer_id: str | None = None

    if TYPE_CHECKING:  # the constructor accepts more types than the attributes have

        def __init__(
            self,
            topic: str,
            body: bytes | bytearray | memoryview | str,
            tags: str | None = None,
            keys: str | Iterable[str] = (),
            delay_level: int = 0,
            properties: Mapping[str, str] = _NO_PROPERTIES,
            flag: int = 0,
            wait: bool = True,
            sharding_key: str | None = None,
            buyer_id: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        _check_topic(self.topic)
        if type(self.body) is not bytes or not self.body:
            force_setattr(self, "body", _body_of(self.body))
        if self.tags is not None and not isinstance(self.tags, str):
            raise BadMessage(
                f"tags is {self.tags!r}: it must be a string or None; the body comes before it"
            )
        if self.keys:
            force_setattr(self, "keys", _keys_of(self.keys))
        if self.properties:
            force_setattr(self, "properties", _own(self.properties))
        # Compared with the defaults first: most messages use them, and this is a hot path.
        if self.delay_level != 0:
            _check_delay_level(self.delay_level)
        if self.flag != 0:
            _check_flag(self.flag)
        if self.wait is not True and self.wait is not False:
            raise BadMessage(f"wait is {self.wait!r}: it must be True or False")
        if self.sharding_key is not None and type(self.sharding_key) is not str:
            _check_text("sharding_key", self.sharding_key)
        if self.buyer_id is not None and type(self.buyer_id) is not str:
            _check_text("buyer_id", self.buyer_id)

    def properties_text(self, unique_key: str) -> str:
        """Encode all properties for the wire. Raises BadMessage if they are invalid or too long."""
        if (
            self.wait
            and not self.properties
            and not (self.tags or self.keys or self.delay_level)
            and not (self.sharding_key or self.buyer_id)
        ):
            return f"UNIQ_KEY\x01{unique_key}"
        # Built as text: a dict that is then encoded takes twice as long.
        parts = [f"UNIQ_KEY\x01{unique_key}"]
        if self.tags:
            parts.append(f"TAGS\x01{self.tags}")
        if self.keys:
            parts.append(f"KEYS\x01{names.KEY_SEPARATOR.join(self.keys)}")
        if self.delay_level:
            parts.append(f"DELAY\x01{self.delay_level}")
        if not self.wait:  # brokers wait by default
            parts.append("WAIT\x01false")
        if self.sharding_key:
            parts.append(f"{SHARDING_KEY}\x01{self.sharding_key}")
        if self.buyer_id:
            parts.append(f"BUYER_ID\x01{self.buyer_id}")
        if self.properties:
            parts += [f"{name}\x01{value}" for name, value in self.properties.items()]
        text = "\x02".join(parts)
        if not text.count("\x01") == text.count("\x02") + 1 == len(parts):
            raise BadMessage("a tag, key or property contains U+0001 or U+0002: remove it")
        if len(text) * 4 > PROPERTIES_SIZE_MAX:  # a character has at most four bytes
            check_properties_size(text)
        return text


def check_properties_size(text: str) -> None:
    """Raise BadMessage if the properties exceed the limit of brokers."""
    size = len(text.encode(errors="surrogatepass"))  # invalid Unicode is rejected elsewhere
    if size > PROPERTIES_SIZE_MAX:
        raise BadMessage(
            f"properties of {size} bytes, the limit is {PROPERTIES_SIZE_MAX}:"
            " move long values to the body"
        )


@lru_cache(maxsize=_TOPICS_KNOWN_MAX)  # a sender has few topics; saves 0.4 us a message
def _check_topic(topic: str) -> None:
    try:
        check_topic(topic)
    except (BadName, AttributeError, TypeError) as error:
        raise BadMessage(f"{topic!r} is not a valid topic: {error}") from error
    if topic in CLOSED_TOPICS:
        raise BadMessage(f"{topic} is a system topic, to which clients cannot send: choose another")


def _check_delay_level(level: object) -> None:
    if not isinstance(level, int) or isinstance(level, bool) or level < 0:
        raise BadMessage(
            f"delay_level is {level!r}: it must be a whole number, 0 for no delay, or 1 and more"
        )


def _check_flag(flag: object) -> None:
    if not isinstance(flag, int) or isinstance(flag, bool):
        raise BadMessage(f"flag is {flag!r}: it must be a whole number of 32 bits")
    if not -(2**31) <= flag < 2**31:
        raise BadMessage(f"flag {flag} does not fit in 32 bits: use a property instead")


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise BadMessage(f"{name} is {value!r}: it must be a string or None")


def _body_of(body: object) -> bytes:
    if isinstance(body, str):
        body = body.encode()
    elif isinstance(body, bytearray | memoryview):
        body = bytes(body)
    if not isinstance(body, bytes):
        kind = type(body).__name__
        raise BadMessage(
            f"body is a {kind}: it must be bytes or str; encode it first, for example as JSON"
        )
    if not body:
        raise BadMessage("body is empty, which Java consumers cannot read: send at least one byte")
    return body


def _keys_of(keys: str | Iterable[str]) -> tuple[str, ...]:
    if isinstance(keys, str):
        return tuple(keys.split())
    try:
        found = tuple(keys)
    except TypeError as error:
        raise BadMessage(f"keys is {keys!r}: it must be a string or a list of strings") from error
    for key in found:
        if not isinstance(key, str) or len(key.split()) != 1:
            raise BadMessage(f"key {key!r} is not a word: it must be a string without whitespace")
    return found


def _own(properties: Mapping[str, str]) -> Mapping[str, str]:
    if type(properties) is not dict and not isinstance(properties, Mapping):
        raise BadMessage(
            f"properties is {properties!r}: it must be a mapping of strings to strings"
        )
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise BadMessage(
                f"property {name!r}: name and value must be strings; convert them with str()"
            )
        if not name.strip() or not value.strip():
            raise BadMessage(
                f"property {name!r} is blank and would be lost on the wire: leave it out"
            )
        if name in names.RESERVED or name == SHARDING_KEY:
            raise BadMessage(f"property {name} is reserved: choose another name")
    return MappingProxyType(dict(properties))


def no_message(*given: object) -> BadMessage:
    """The error of a send that was given something else than one message."""
    found = " and ".join(type(each).__name__ for each in given)
    return BadMessage(f"got {found}: give one Message, such as Message('topic', b'body')")


class SendStatus(Enum):
    """How safely a broker has stored a message."""

    OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"  # stored, but not flushed to disk in time
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"  # stored, but not replicated in time
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"  # stored, but no slave is available


SEND_STATUS_OF: Mapping[int, SendStatus] = {
    ResponseCode.SUCCESS: SendStatus.OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}


class SendResult(msgspec.Struct, frozen=True):
    """The result of a successful send.

    Attributes:
        status: How safely the message is stored.
        message_id: The unique key of the message; for a batch, all keys with commas.
        offset_id: The broker's address and the physical offset, for `view_message`.
        queue: The queue that stores the message.
        queue_offset: The offset in the queue.
        transaction_id: The id of a transaction, otherwise None.
        region_id: The broker's region, used by traces.
        trace_on: False: the broker asks not to trace the message.
    """

    status: SendStatus
    message_id: str
    offset_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region_id: str = ""
    trace_on: bool = True


class PullStatus(Enum):
    """The outcome of a pull."""

    FOUND = "FOUND"
    NO_NEW = "NO_NEW_MSG"  # the end of the queue
    NO_MATCHED = "NO_MATCHED_MSG"  # the filter matches none; continue at the next offset
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"  # outside of the queue; continue at the next offset


PULL_STATUS_OF: Mapping[int, PullStatus] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


class PullResult(msgspec.Struct, frozen=True):
    """The result of a pull.

    Attributes:
        status: The outcome.
        next_offset: The offset of the next pull.
        min_offset: The lowest offset of the queue.
        max_offset: The offset that the next message of the queue gets.
        messages: The messages; empty unless the status is FOUND.
    """

    status: PullStatus
    next_offset: int
    min_offset: int
    max_offset: int
    messages: tuple[ReceivedMessage, ...] = ()
