"""A message to send, and what a send or a pull came to."""

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
    """A message to send. What cannot be sent is refused here, with what to change.

    A Struct, as it is made in C: a frozen dataclass of ten fields takes 1.8 us more.
    """

    topic: str
    body: bytes
    tags: str | None = None  # one tag: consumers choose by it
    keys: tuple[str, ...] = ()  # words that the message can be looked up by
    delay_level: int = 0  # of the broker's table of delays, from 1; 0 is at once
    properties: Mapping[str, str] = _NO_PROPERTIES  # the sender's own
    flag: int = 0  # the sender's own, never looked at
    wait: bool = True  # the broker answers once it is as safe as the broker is set to make it
    sharding_key: str | None = None  # messages of one key go to one queue
    buyer_id: str | None = None

    if TYPE_CHECKING:  # more is taken than is kept

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
            raise BadMessage(f"tags is {self.tags!r}: it is one text; the body comes before it")
        if self.keys:
            force_setattr(self, "keys", _keys_of(self.keys))
        if self.properties:
            force_setattr(self, "properties", _own(self.properties))
        # Compared with the defaults first: most messages have nothing else, and this is a hot path.
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
        """All properties as the wire has them; BadMessage if they are too many or cannot be."""
        if (
            self.wait
            and not self.properties
            and not (self.tags or self.keys or self.delay_level)
            and not (self.sharding_key or self.buyer_id)
        ):
            return f"UNIQ_KEY\x01{unique_key}"
        # Built at once: as a dict that is then encoded it takes twice as long.
        parts = [f"UNIQ_KEY\x01{unique_key}"]
        if self.tags:
            parts.append(f"TAGS\x01{self.tags}")
        if self.keys:
            parts.append(f"KEYS\x01{names.KEY_SEPARATOR.join(self.keys)}")
        if self.delay_level:
            parts.append(f"DELAY\x01{self.delay_level}")
        if not self.wait:  # to wait is what a broker does if it is not told
            parts.append("WAIT\x01false")
        if self.sharding_key:
            parts.append(f"{SHARDING_KEY}\x01{self.sharding_key}")
        if self.buyer_id:
            parts.append(f"BUYER_ID\x01{self.buyer_id}")
        if self.properties:
            parts += [f"{name}\x01{value}" for name, value in self.properties.items()]
        text = "\x02".join(parts)
        if not text.count("\x01") == text.count("\x02") + 1 == len(parts):
            raise BadMessage("a tag, key or property holds U+0001 or U+0002: take it out")
        if len(text) * 4 > PROPERTIES_SIZE_MAX:  # a character has at most four bytes
            check_properties_size(text)
        return text


def check_properties_size(text: str) -> None:
    """BadMessage, if no broker takes so much."""
    size = len(text.encode(errors="surrogatepass"))  # what is no Unicode is refused elsewhere
    if size > PROPERTIES_SIZE_MAX:
        raise BadMessage(
            f"properties of {size} bytes, the limit is {PROPERTIES_SIZE_MAX}:"
            " put what is long into the body"
        )


@lru_cache(maxsize=_TOPICS_KNOWN_MAX)  # a sender has few topics; saves 0.4 us a message
def _check_topic(topic: str) -> None:
    try:
        check_topic(topic)
    except (BadName, AttributeError, TypeError) as error:
        raise BadMessage(f"{topic!r} cannot be a topic: {error}") from error
    if topic in CLOSED_TOPICS:
        raise BadMessage(f"nobody may send to the system topic {topic}: choose another")


def _check_delay_level(level: object) -> None:
    if not isinstance(level, int) or isinstance(level, bool) or level < 0:
        raise BadMessage(
            f"delay_level is {level!r}: it must be a whole number; use 0 for none, or 1 and more"
        )


def _check_flag(flag: object) -> None:
    if not isinstance(flag, int) or isinstance(flag, bool):
        raise BadMessage(f"flag is {flag!r}: it must be a whole number of 32 bits")
    if not -(2**31) <= flag < 2**31:
        raise BadMessage(f"flag {flag} does not fit in 32 bits: use a property instead")


def _check_text(name: str, value: object) -> None:
    if not isinstance(value, str):
        raise BadMessage(f"{name} is {value!r}: it must be a text, or None")


def _body_of(body: object) -> bytes:
    if isinstance(body, str):
        body = body.encode()
    elif isinstance(body, bytearray | memoryview):
        body = bytes(body)
    if not isinstance(body, bytes):
        kind = type(body).__name__
        raise BadMessage(f"a body is bytes or str, not {kind}: encode it, as JSON for one")
    if not body:
        raise BadMessage("the body is empty, which Java's consumers cannot read: send a byte")
    return body


def _keys_of(keys: str | Iterable[str]) -> tuple[str, ...]:
    if isinstance(keys, str):
        return tuple(keys.split())
    try:
        found = tuple(keys)
    except TypeError as error:
        raise BadMessage(f"keys is {keys!r}: it must be a text, or a list of texts") from error
    for key in found:
        if not isinstance(key, str) or len(key.split()) != 1:
            raise BadMessage(f"the key {key!r} is no word: keys are texts without white space")
    return found


def _own(properties: Mapping[str, str]) -> Mapping[str, str]:
    if type(properties) is not dict and not isinstance(properties, Mapping):
        raise BadMessage(f"properties is {properties!r}: it must be a mapping of texts to texts")
    for name, value in properties.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise BadMessage(f"property {name!r} is no pair of texts: convert it with str()")
        if not name.strip() or not value.strip():
            raise BadMessage(f"property {name!r} is blank, which is lost on its way: leave it out")
        if name in names.RESERVED or name == SHARDING_KEY:
            raise BadMessage(f"property {name} is the system's own: choose another name")
    return MappingProxyType(dict(properties))


class SendStatus(Enum):
    """How safe a message is that a broker has taken."""

    OK = "SEND_OK"
    FLUSH_DISK_TIMEOUT = "FLUSH_DISK_TIMEOUT"  # taken, but not yet on its disk
    FLUSH_SLAVE_TIMEOUT = "FLUSH_SLAVE_TIMEOUT"  # taken, but its slave has not said so in time
    SLAVE_NOT_AVAILABLE = "SLAVE_NOT_AVAILABLE"  # taken, but there is no slave to copy it


SEND_STATUS_OF: Mapping[int, SendStatus] = {
    ResponseCode.SUCCESS: SendStatus.OK,
    ResponseCode.FLUSH_DISK_TIMEOUT: SendStatus.FLUSH_DISK_TIMEOUT,
    ResponseCode.FLUSH_SLAVE_TIMEOUT: SendStatus.FLUSH_SLAVE_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE: SendStatus.SLAVE_NOT_AVAILABLE,
}


class SendResult(msgspec.Struct, frozen=True):
    """A broker has the message: where, and how safe it is."""

    status: SendStatus
    message_id: str  # the unique key; of a batch, all of them with commas
    offset_id: str
    queue: MessageQueue
    queue_offset: int
    transaction_id: str | None = None
    region_id: str = ""
    trace_on: bool = True


class PullStatus(Enum):
    """What a pull found."""

    FOUND = "FOUND"
    NO_NEW = "NO_NEW_MSG"  # the end of the queue
    NO_MATCHED = "NO_MATCHED_MSG"  # none that the subscription wants; go on from the next offset
    OFFSET_ILLEGAL = "OFFSET_ILLEGAL"  # outside of the queue; the next offset is inside


PULL_STATUS_OF: Mapping[int, PullStatus] = {
    ResponseCode.SUCCESS: PullStatus.FOUND,
    ResponseCode.PULL_NOT_FOUND: PullStatus.NO_NEW,
    ResponseCode.PULL_RETRY_IMMEDIATELY: PullStatus.NO_MATCHED,
    ResponseCode.PULL_OFFSET_MOVED: PullStatus.OFFSET_ILLEGAL,
}


class PullResult(msgspec.Struct, frozen=True):
    """The answer to a pull."""

    status: PullStatus
    next_offset: int  # to ask for next
    min_offset: int
    max_offset: int
    messages: tuple[ReceivedMessage, ...] = ()
