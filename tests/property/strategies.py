"""Hypothesis strategies for every struct of the protocol, derived from its types."""

from functools import cache
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from msgspec import inspect

from batch_entries import BatchEntry
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import LANGUAGES
from cometmq.protocol.command import NO_FIELDS, Codec, Command
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import StoredMessage, host_flags

texts = st.text(max_size=20)
int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
bodies = st.binary(max_size=200)
queues = st.builds(MessageQueue, texts, texts, int32s)


@cache
def of(shape: type) -> SearchStrategy[Any]:
    """Return a strategy for a struct, with any value of its type in each field."""
    return _of_type(inspect.type_info(shape))


def _of_type(info: inspect.Type) -> SearchStrategy[Any]:
    match info:
        case inspect.StructType():
            fields = {field.name: _of_type(field.type) for field in info.fields}
            return st.builds(info.cls, **fields)
        case inspect.CustomType(cls=cls) if cls is MessageQueue:
            return queues
        case inspect.UnionType():
            return st.one_of(*map(_of_type, info.types))
        case inspect.DictType():
            return st.dictionaries(_of_type(info.key_type), _of_type(info.value_type), max_size=3)
        case inspect.ListType():
            return st.lists(_of_type(info.item_type), max_size=3)
        case inspect.EnumType():
            return st.sampled_from(list(info.cls))
        case inspect.IntType():
            assert info.ge is not None and info.le is not None, "an integer without Java's bounds"
            return st.integers(int(info.ge), int(info.le))
        case _:
            return _leaf(info)


def _leaf(info: inspect.Type) -> SearchStrategy[Any]:
    simple = {
        inspect.StrType: texts,
        inspect.BoolType: st.booleans(),
        inspect.FloatType: st.floats(allow_nan=False, allow_infinity=False),
        inspect.NoneType: st.none(),
    }
    return simple[type(info)]


def raw_fields(fields: dict[str, str]) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(fields)) if fields else NO_FIELDS


fields = st.dictionaries(texts, texts, max_size=5).map(raw_fields)
json_commands = st.builds(
    Command, code=int32s, opaque=int32s, flag=int32s, language=texts, version=int32s,
    remark=st.none() | texts, fields=fields, body=bodies, codec=st.just(Codec.JSON),
)  # fmt: skip
binary_commands = st.builds(
    Command, code=int16s, opaque=int32s, flag=int32s, language=st.sampled_from(LANGUAGES),
    version=int16s, remark=st.none() | st.text(min_size=1, max_size=20), fields=fields, body=bodies,
    codec=st.just(Codec.BINARY),
)  # fmt: skip
commands = json_commands | binary_commands

hosts = st.builds(Host, st.ip_addresses().map(str), int32s)


@st.composite
def messages(draw: st.DrawFn) -> StoredMessage:
    """Generate stored messages with correct host bits."""
    born, stored = draw(hosts), draw(hosts)
    return StoredMessage(
        topic=draw(st.text(max_size=30)),
        queue_id=draw(int32s),
        queue_offset=draw(int64s),
        physical_offset=draw(int64s),
        flag=draw(int32s),
        sys_flag=draw(int32s) & ~48 | host_flags(born, stored),
        born_ms=draw(int64s),
        born_host=born,
        stored_ms=draw(int64s),
        store_host=stored,
        reconsume_times=draw(int32s),
        prepared_offset=draw(int64s),
        body=draw(bodies),
        properties_text=draw(texts),
    )


batch_entries = st.builds(BatchEntry, body=bodies, flag=int32s, properties_text=texts)


@st.composite
def mutants(draw: st.DrawFn, originals: list[bytes]) -> bytes:
    """Generate a valid byte string with a few bytes changed, removed or inserted."""
    data = bytearray(draw(st.sampled_from(originals)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data)))
        cut = draw(st.integers(0, 4))
        data[at : at + cut] = draw(st.binary(max_size=4) | st.sampled_from(SPITEFUL))
    return bytes(data)


SPITEFUL = [
    b"null", b"{", b"}", b"[", b"]", b'"', b":", b",", b"\\", b"1e999", b"-1", b"{}:",
    b"9" * 30, b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0", b"\xed\xa0\x80", b'"\\ud800"',
    b'{"$ref":"$"}',
]  # fmt: skip
