"""Messages made ready for the wire: with a unique key, compressed if that is worth it, bounded."""

from collections.abc import Callable, Sequence

import msgspec

from cometmq.client.config import ProducerConfig
from cometmq.client.message import Message, check_properties_size
from cometmq.client.unique_id import UniqueKeys
from cometmq.errors import BadMessage
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.limits import BATCH_COUNT_MAX
from cometmq.protocol.records.batch import pack_entries
from cometmq.protocol.records.compression import compress
from cometmq.protocol.records.properties import PROPERTY_SEPARATOR

# A broker holds a batch against its limit as it stores it: so much more for each message.
_RECORD_MORE = 91 + 24  # with two IPv6 hosts
LONG = 64 << 10  # bytes of a body: to compress them, the loop would stand still for 2 ms
_NOT_WAITED_FOR = "WAIT\x01false"

_write_json = msgspec.json.encode


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """What a send carries, but for the queue it goes to."""

    message_id: str  # the unique key; of a batch, all of them with commas
    properties_text: str
    properties_json: bytes
    body: bytes
    born_ms: int
    flag: int = 0
    sys_flag: int = 0


class Packing:
    """Of one producer."""

    def __init__(
        self, config: ProducerConfig, unique_keys: UniqueKeys, wall_ms: Callable[[], int]
    ) -> None:
        self._key_at = unique_keys.at
        self._keys = unique_keys.many
        self.wall_ms = wall_ms
        self._size_max = config.message_size_max
        self._compress_over = config.compress_over
        self._kind = config.compression
        self._level = config.compress_level
        # Bodies from this size on take so long that a thread should make them ready.
        self.long_from = max(LONG, config.compress_over)
        self._compressed = int(MessageFlag.COMPRESSED | config.compression)

    def pack(self, message: Message, now_ms: int, marks: str = "", sys_flag: int = 0) -> Outgoing:
        """One message; `marks` are properties of the system's own, as the wire has them."""
        body = message.body
        if len(body) > self._size_max:
            raise self._too_large(len(body))
        key = self._key_at(now_ms)
        text = message.properties_text(key)
        if marks:
            text = f"{text}{PROPERTY_SEPARATOR}{marks}"
            check_properties_size(text)
        if len(body) >= self._compress_over:
            smaller = compress(body, self._kind, self._level)
            if len(smaller) < len(body):
                body, sys_flag = smaller, sys_flag | self._compressed
        return Outgoing(key, text, _json(text), body, now_ms, message.flag, sys_flag)

    def pack_batch(self, messages: Sequence[Message]) -> list[tuple[Sequence[Message], Outgoing]]:
        """As few parts as brokers take, in their order; BadMessage before anything is sent.

        A batch is not compressed.
        """
        _check_batch(messages)
        now_ms = self.wall_ms()
        keys = self._keys(len(messages))
        parts = []
        begun = size = 0
        entries: list[tuple[int, bytes, bytes]] = []
        around = len(messages[0].topic) + _RECORD_MORE
        for index, message in enumerate(messages):
            body = message.body
            if len(body) > self._size_max:
                raise self._too_large(len(body))
            properties = _utf8(message.properties_text(keys[index]))
            more = around + len(body) + len(properties)
            if entries and (size + more > self._size_max or len(entries) == BATCH_COUNT_MAX):
                sent = _batch(messages[0], keys[begun:index], entries, now_ms)
                parts.append((messages[begun:index], sent))
                begun, size, entries = index, 0, []
            size += more
            entries.append((message.flag, body, properties))
        parts.append((messages[begun:], _batch(messages[0], keys[begun:], entries, now_ms)))
        return parts

    def _too_large(self, size: int) -> BadMessage:
        return BadMessage(
            f"a body of {size} bytes, the limit is {self._size_max}: send it in parts, or raise"
            " message_size_max here and maxMessageSize of the brokers"
        )


def _json(text: str) -> bytes:
    if text.isascii():  # the usual case
        return _write_json(text)
    return _write_json(_utf8(text).decode())


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadMessage(f"a tag, key or property is no Unicode text: {error}") from error


def _batch(
    first: Message, keys: Sequence[str], entries: Sequence[tuple[int, bytes, bytes]], now_ms: int
) -> Outgoing:
    text = "" if first.wait else _NOT_WAITED_FOR
    return Outgoing(",".join(keys), text, _json(text), pack_entries(entries), now_ms)


def _check_batch(messages: Sequence[Message]) -> None:
    if not messages:
        raise BadMessage("a batch without messages: give at least one")
    first = messages[0]
    if first.topic.startswith("%RETRY%"):
        raise BadMessage("messages of a retry topic cannot be in a batch: send them singly")
    for message in messages:
        if message.topic != first.topic:
            raise BadMessage(
                f"a batch goes to one topic, not to {first.topic} and {message.topic}: make two"
            )
        if message.wait != first.wait:
            raise BadMessage("the messages of a batch are all waited for, or none: make two")
        if message.delay_level:
            raise BadMessage("a message of a batch cannot be delayed: send it by itself")
