"""Sends on the wire: `Packing` makes properties and bodies, `SendTemplate` frames, and `result_of`
reads the answers.

The frames of one producer to one topic differ in a few places only, which a template fills in. That
takes a fifth of the time that the general writer takes (bench/client.py); the bytes are the same,
and a test compares the two.
"""

import struct
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from cometmq.client.config import ProducerConfig
from cometmq.client.message import SEND_STATUS_OF, Message, SendResult, check_properties_size
from cometmq.client.unique_id import UniqueKeys
from cometmq.errors import BadMessage, TooLarge
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import LANGUAGE, VERSION, RequestCode
from cometmq.protocol.command import Command, encode_json
from cometmq.protocol.flags import CommandFlag, MessageFlag
from cometmq.protocol.headers.base import is_true, read_header, write_header
from cometmq.protocol.headers.send import SendHeader, SendHeaderV2, SendReplyHeader
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.limits import BATCH_COUNT_MAX, FRAME_SIZE_MAX
from cometmq.protocol.records.batch import pack_entries
from cometmq.protocol.records.compression import compress
from cometmq.protocol.records.properties import PROPERTY_SEPARATOR
from cometmq.protocol.refusal import refusal_of

# Brokers compare a batch with their size limit as it is stored: each record has this overhead.
_RECORD_OVERHEAD = 91 + 24  # with two IPv6 hosts
_LONG = 64 << 10  # bytes of a body; compressing more would block the loop for over 2 ms
_DO_NOT_WAIT = "WAIT\x01false"
_ONEWAY = int(CommandFlag.ONEWAY)
_SIZE_MAX = FRAME_SIZE_MAX - 4

# What an empty send has in the places that a template fills in. Names cannot contain a quote, so
# that nothing else in the frame can look like one of these.
_PLACES = (
    (b'"e":"0"', b'"e":"%d"'),  # queue id
    (b'"f":"0"', b'"f":"%d"'),  # sys flag
    (b'"g":"0"', b'"g":"%d"'),  # born timestamp
    (b'"h":"0"', b'"h":"%d"'),  # flag of the message
    (b'"i":""', b'"i":%b'),  # properties, with their quotes
    (b'"flag":0', b'"flag":%d'),  # of the command
    (b'"opaque":0', b'"opaque":%d'),
)

_pack_prefix = struct.Struct(">iI").pack  # as in protocol/frame.py
_write_json = msgspec.json.encode

SendKind = Literal["single", "batch", "reply"]
CODES: dict[SendKind, RequestCode] = {
    "single": RequestCode.SEND_MESSAGE_V2,
    "batch": RequestCode.SEND_BATCH_MESSAGE,
    "reply": RequestCode.SEND_REPLY_MESSAGE_V2,
}


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """The parts of a send that do not depend on its queue."""

    message_id: str  # the unique key; of a batch, all keys, separated by commas
    properties_text: str
    properties_json: bytes
    body: bytes
    born_ms: int
    flag: int = 0
    sys_flag: int = 0


class Packing:
    """Makes the messages of one producer ready for sending."""

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
        self.long_from = max(_LONG, config.compress_over)  # a thread compresses bodies from here on
        self._compressed = int(MessageFlag.COMPRESSED | config.compression)

    def pack(self, message: Message, now_ms: int, marks: str = "", sys_flag: int = 0) -> Outgoing:
        """Pack one message; `marks` are encoded system properties to add.

        Raises BadMessage if the message is too large or has invalid properties.
        """
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
        """Split a batch into as few frames as brokers accept, in order. Batches are not compressed.

        Raises BadMessage if any message cannot be part of the batch.
        """
        _check_batch(messages)
        now_ms = self.wall_ms()
        keys = self._keys(len(messages))
        parts = []
        begun = size = 0
        entries: list[tuple[int, bytes, bytes]] = []
        around = len(messages[0].topic) + _RECORD_OVERHEAD
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
            f"the body has {size} bytes, the limit is {self._size_max}: split it, or raise"
            " message_size_max of the producer and maxMessageSize of the brokers"
        )


def _json(text: str) -> bytes:
    if text.isascii():  # most are
        return _write_json(text)
    return _write_json(_utf8(text).decode())


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise BadMessage(f"a tag, key or property is not valid Unicode: {error}") from error


def _batch(
    first: Message, keys: Sequence[str], entries: Sequence[tuple[int, bytes, bytes]], now_ms: int
) -> Outgoing:
    text = "" if first.wait else _DO_NOT_WAIT
    return Outgoing(",".join(keys), text, _json(text), pack_entries(entries), now_ms)


def _check_batch(messages: Sequence[Message]) -> None:
    if not messages:
        raise BadMessage("a batch needs at least one message")
    for message in messages:
        if not isinstance(message, Message):
            raise BadMessage(f"a batch contains {message!r}: give one Message for each entry")
    first = messages[0]
    if first.topic.startswith("%RETRY%"):
        raise BadMessage("a batch cannot go to a retry topic: send the messages one by one")
    for message in messages:
        if message.topic != first.topic:
            raise BadMessage(
                f"a batch has one topic, not {first.topic} and {message.topic}: send two batches"
            )
        if message.wait != first.wait:
            raise BadMessage("all messages of a batch must have the same `wait`: send two batches")
        if message.delay_level:
            raise BadMessage("a batch cannot contain delayed messages: send them one by one")


class SendTemplate:
    """The frames of one kind of send of one producer to one topic."""

    __slots__ = ("_empty", "_template", "code")

    def __init__(
        self,
        group: str,
        topic: str,
        *,
        default_topic: str,
        default_topic_queue_nums: int,
        unit_mode: bool,
        kind: SendKind = "single",
    ) -> None:
        self.code = CODES[kind]
        self._empty = SendHeaderV2(
            producer_group=group,
            topic=topic,
            default_topic=default_topic,
            default_topic_queue_nums=default_topic_queue_nums,
            queue_id=0,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            properties="",
            reconsume_times=0,
            unit_mode=unit_mode,
            batch=kind == "batch",
        )
        command = Command(
            code=self.code, language=LANGUAGE, version=VERSION, fields=write_header(self._empty)
        )
        template = encode_json(command).replace(b"%", b"%%")
        for place, hole in _PLACES:
            assert template.count(place) == 1, place
            template = template.replace(place, hole)
        self._template = template

    def frame(self, opaque: int, queue_id: int, sent: Outgoing, *, oneway: bool = False) -> bytes:
        """The frame of a request. Raises TooLarge if it exceeds the limit of the protocol."""
        header = self._template % (
            queue_id,
            sent.sys_flag,
            sent.born_ms,
            sent.flag,
            sent.properties_json,
            _ONEWAY if oneway else 0,
            opaque,
        )
        size = 4 + len(header) + len(sent.body)
        if size > _SIZE_MAX:
            raise TooLarge(f"the frame has {size} bytes: make the message smaller")
        return b"".join((_pack_prefix(size, len(header)), header, sent.body))

    def header(self, queue_id: int, sent: Outgoing) -> SendHeader:
        """The header for the general writer, which requests that are signed go through."""
        empty = self._empty
        return SendHeaderV2(
            producer_group=empty.producer_group,
            topic=empty.topic,
            default_topic=empty.default_topic,
            default_topic_queue_nums=empty.default_topic_queue_nums,
            queue_id=queue_id,
            sys_flag=sent.sys_flag,
            born_timestamp=sent.born_ms,
            flag=sent.flag,
            properties=sent.properties_text,
            reconsume_times=0,
            unit_mode=empty.unit_mode,
            batch=empty.batch,
        )


class SentHeader(
    SendReplyHeader, rename=camel(region_id="MSG_REGION", trace_on="TRACE_ON"), kw_only=True
):
    """A broker's reply to a send; brokers may leave out what concerns traces."""

    region_id: str = "DefaultRegion"
    trace_on: bool | str = True  # see `is_true`


def result_of(response: Command, sent: Outgoing, queue: MessageQueue) -> SendResult:
    """The result that a broker's answer stands for. Raises Refused if it stored nothing."""
    status = SEND_STATUS_OF.get(response.code)
    if status is None:
        raise refusal_of(response, f"broker {queue.broker_name}")
    reply = read_header(response, SentHeader)
    if reply.queue_id != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, reply.queue_id)
    return SendResult(
        status,
        sent.message_id,
        reply.msg_id,
        queue,
        reply.queue_offset,
        reply.transaction_id,
        reply.region_id,
        is_true(reply.trace_on),
    )
