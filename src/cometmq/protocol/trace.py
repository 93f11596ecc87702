"""Trace records: encodes and decodes what clients report about the messages they handle.

Fields are separated by U+0001, and each record ends with U+0002:

    Pub            time | region | group | topic | id | tags | keys | store host | body size |
                   cost | kind | offset id | success [| client host]
    SubBefore      time | region | group | request | id | retries | keys
    SubAfter       request | id | cost | success | keys | outcome [| time | group]
    EndTransaction time | region | group | topic | id | tags | keys | store host | kind |
                   transaction | state | from check

Only some clients write the fields in brackets. Times and costs are in ms.
"""

from enum import IntEnum
from typing import Any, ClassVar

import msgspec

from cometmq.errors import Malformed
from cometmq.protocol.java.values import java_text

_FIELD_END = "\x01"
_RECORD_END = "\x02"


class MessageKind(IntEnum):
    """The kind of a sent message."""

    NORMAL = 0
    HALF = 1
    COMMITTED = 2
    DELAYED = 3


class Outcome(IntEnum):
    """The result of a listener."""

    SUCCESS = 0
    TIMED_OUT = 1
    EXCEPTION = 2
    RETURNED_NULL = 3
    FAILED = 4


class Trace(msgspec.Struct, frozen=True, kw_only=True):
    """Base class of trace records. Fields are in the order of the text."""

    word: ClassVar[str]
    required: ClassVar[int]  # number of fields that every client writes

    @property
    def words(self) -> frozenset[str]:
        """The keys by which the trace message can be found."""
        fields = msgspec.structs.asdict(self)
        return frozenset([fields["message_id"], *fields["keys"].split()])


class ProducerTrace(Trace, frozen=True, kw_only=True):
    """The first fields of producers' records."""

    time_ms: int
    region_id: str
    group: str
    topic: str
    message_id: str
    tags: str = ""
    keys: str = ""
    store_host: str = ""


class SentTrace(ProducerTrace, frozen=True, kw_only=True):
    """A producer sent the message."""

    word = "Pub"
    required = 13
    body_size: int = 0
    cost_ms: int = 0
    kind: MessageKind = MessageKind.NORMAL
    offset_id: str = ""
    success: bool = True
    client_host: str = ""


class TakenTrace(Trace, frozen=True, kw_only=True):
    """A consumer passes the message to its listener."""

    word = "SubBefore"
    required = 7
    time_ms: int
    region_id: str
    group: str
    request_id: str
    message_id: str
    retries: int = 0
    keys: str = ""


class ConsumedTrace(Trace, frozen=True, kw_only=True):
    """The listener has returned."""

    word = "SubAfter"
    required = 6
    request_id: str
    message_id: str
    cost_ms: int = 0
    success: bool = True
    keys: str = ""
    outcome: Outcome = Outcome.SUCCESS
    time_ms: int = 0
    group: str = ""


class EndedTrace(ProducerTrace, frozen=True, kw_only=True):
    """A producer committed or rolled back the transaction."""

    word = "EndTransaction"
    required = 12
    kind: MessageKind = MessageKind.COMMITTED
    transaction_id: str = ""
    state: str = ""
    from_check: bool = False


_KINDS: dict[str, type[Trace]] = {
    each.word: each for each in (SentTrace, TakenTrace, ConsumedTrace, EndedTrace)
}


def encode_trace(trace: Trace) -> str:
    """The text of a record, without empty optional fields at its end."""
    values = list(msgspec.structs.astuple(trace))
    while len(values) > trace.required and not values[-1]:
        values.pop()
    return _FIELD_END.join([trace.word, *map(_text, values)]) + _RECORD_END


def decode_traces(text: str) -> list[Trace]:
    """The records in a message body. Raises Malformed if one is invalid."""
    return [_decode(record) for record in text.split(_RECORD_END) if record]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return java_text(value)
    return str(int(value)) if isinstance(value, int) else str(value)


def _decode(record: str) -> Trace:
    word, *values = record.split(_FIELD_END)
    shape = _KINDS.get(word)
    if shape is None:
        raise Malformed(f"{word!r} is not a kind of trace record")
    if len(values) < shape.required:
        raise Malformed(f"a {word} record has {len(values)} fields, not {shape.required}")
    fields = dict(zip(shape.__struct_fields__, values, strict=False))
    try:
        return msgspec.convert(fields, shape, strict=False)
    except msgspec.ValidationError as error:
        raise Malformed(f"a {word} record: {error}") from error
