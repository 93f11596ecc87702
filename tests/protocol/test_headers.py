"""Each header struct has the names, the types and the required fields of Apache's class."""

import msgspec
import pytest

from cometmq.errors import BadHeader
from cometmq.protocol.command import NO_FIELDS, Command
from cometmq.protocol.headers.base import (
    Header,
    NoHeader,
    WrittenHeader,
    is_true,
    read_header,
    write_fields,
    write_header,
)
from cometmq.protocol.headers.client import UnregisterClientHeader
from cometmq.protocol.headers.group import DeleteGroupHeader
from cometmq.protocol.headers.namesrv import RouteHeader
from cometmq.protocol.headers.query import QueryConsumeQueueHeader
from cometmq.protocol.headers.send import (
    RefusedSendHeader,
    SendBackHeader,
    SendHeader,
    SendHeaderV2,
    TracedReplyHeader,
    send_replies,
)
from protocol.golden import HEADER_OF_CLASS, HEADERS, entries

# Classes that no request of 4.9 uses, or that only a List makes up, which no header can carry.
UNUSED = {
    "CheckTransactionStateResponseHeader",
    "GetBrokerClusterAclConfigResponseHeader",
    "RegisterOrderTopicRequestHeader",
}
# SEND_MESSAGE_V2 names its broker `n`; it inherits `bname` too, which is never set.
INHERITED = {"SendMessageRequestHeaderV2": {"bname"}}
# A field of the request that is no field of the class. TracedReplyHeader is a class with two more.
EXTRA = {"QueryMessageRequestHeader": {"_UNIQUE_KEY_QUERY"}}
# Marked as required there, and never asked for.
LENIENT = {
    "CreateTopicRequestHeader": {"order"},
    "PullMessageRequestHeader": {"suspendTimeoutMillis", "subVersion"},
}
JAVA_TYPES = {
    "String": str, "Integer": int, "int": int, "Long": int, "long": int, "Boolean": bool,
    "boolean": bool,
}  # fmt: skip
USED = [entry for entry in entries("headers") if entry["name"] not in UNUSED]
each_used = pytest.mark.parametrize("entry", USED, ids=[entry["name"] for entry in USED])


def fields_of(entry):
    dropped = INHERITED.get(entry["name"], set())
    return [field for field in entry["value"]["fields"] if field["name"] not in dropped]


def our_fields(entry):
    extra = EXTRA.get(entry["name"], set())
    fields = msgspec.structs.fields(HEADER_OF_CLASS[entry["name"]])
    return {field.encode_name: field for field in fields if field.encode_name not in extra}


def read(fields, shape):
    return read_header(Command(code=1, fields=write_fields(fields)), shape)


def read_json(text, shape):
    return read_header(Command(code=1, fields=msgspec.Raw(text)), shape)


def written(header):
    return msgspec.json.decode(write_header(header), type=dict[str, str] | None) or {}


def test_every_class_has_a_struct_and_every_struct_a_class():
    assert {entry["name"] for entry in entries("headers")} == HEADER_OF_CLASS.keys() | UNUSED
    own = {TracedReplyHeader, RefusedSendHeader, WrittenHeader}
    assert set(HEADERS) - own == set(HEADER_OF_CLASS.values())


@each_used
def test_names(entry):
    assert our_fields(entry).keys() == {field["name"] for field in fields_of(entry)}


@each_used
def test_required_there_is_required_here(entry):
    required = {field["name"] for field in fields_of(entry) if field["required"]}
    required -= LENIENT.get(entry["name"], set())
    assert {name for name, field in our_fields(entry).items() if field.required} == required


@each_used
def test_types(entry):
    ours = our_fields(entry)
    for field in fields_of(entry):
        info = msgspec.inspect.type_info(ours[field["name"]].type)
        kinds = info.types if isinstance(info, msgspec.inspect.UnionType) else (info,)
        kind = next(kind for kind in kinds if not isinstance(kind, msgspec.inspect.NoneType))
        expected = JAVA_TYPES[field["type"]]
        if expected is str:
            assert isinstance(kind, msgspec.inspect.StrType)
        elif expected is bool:
            assert isinstance(kind, msgspec.inspect.BoolType)
        else:
            bits = 64 if field["type"].lower() == "long" else 32
            assert (kind.ge, kind.le) == (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


@each_used
def test_a_full_header_both_ways(entry):
    shape = HEADER_OF_CLASS[entry["name"]]
    dropped = INHERITED.get(entry["name"], set())
    fields = {
        name: text
        for name, text in entry["value"]["extFieldsOfSample"].items()
        if name not in dropped
    }
    header = read(fields, shape)
    assert written(header) == fields
    values = {
        field.encode_name: getattr(header, field.name) for field in our_fields(entry).values()
    }
    booleans = {each["name"] for each in fields_of(entry) if JAVA_TYPES[each["type"]] is bool}
    values |= {name: is_true(values[name]) for name in booleans}
    assert values == {
        name: item for name, item in entry["value"]["sample"].items() if name not in dropped
    }


@each_used
def test_defaults(entry):
    """What an empty object of Apache's writes is what our defaults write."""
    ours = our_fields(entry)
    defaults = entry["value"]["extFieldsOfDefaults"]
    for name, field in ours.items():
        is_lenient = name in LENIENT.get(entry["name"], set())
        # acceptStandardJsonOnly is null there, false here
        if not field.required and name != "acceptStandardJsonOnly" and not is_lenient:
            text = None if field.default is None else str(field.default).lower()
            assert defaults.get(name) == text, name


@each_used
def test_each_missing_field_is_refused_by_name(entry):
    fields = entry["value"]["extFieldsOfSample"]
    for field in fields_of(entry):
        if field["required"] and field["name"] not in LENIENT.get(entry["name"], set()):
            rest = {name: text for name, text in fields.items() if name != field["name"]}
            with pytest.raises(BadHeader, match=f"`{field['name']}`"):
                read(rest, HEADER_OF_CLASS[entry["name"]])


# What other clients send --------------------------------------------------------------------------


def test_numbers_and_booleans_that_are_no_strings():
    text = (
        b'{"offset":12,"group":77,"delayLevel":3,"unitMode":true,"maxReconsumeTimes":16,'
        b'"originTopic":"t"}'
    )
    assert read_json(text, SendBackHeader) == SendBackHeader(
        offset=12, group="77", delay_level=3, unit_mode=True, max_reconsume_times=16,
        origin_topic="t",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "flag"),
    [('"0"', False), ('"1"', False), ('"TRUE"', True), ("true", True), ('"maybe"', False)],
)
def test_booleans_are_read_as_java_reads_them(text, flag):
    fields = f'{{"topic":"t","acceptStandardJsonOnly":{text}}}'.encode()
    assert is_true(read_json(fields, RouteHeader).accept_standard_json_only) is flag
    fields = f'{{"groupName":"g","removeOffset":{text}}}'.encode()
    assert read_json(fields, DeleteGroupHeader).remove_offset is flag


def test_null_is_no_value():
    assert read_json(b'{"topic":"t","acceptStandardJsonOnly":null}', RouteHeader) == RouteHeader(
        topic="t"
    )
    with pytest.raises(BadHeader, match="topic"):
        read_json(b'{"topic":null}', RouteHeader)


def test_the_word_null_is_a_text():
    assert read_json(b'{"topic":"null"}', RouteHeader).topic == "null"


def test_unknown_fields_are_ignored():
    text = (
        b'{"AccessKey":"","OnsChannel":"ALIYUN","Signature":"x=","clientID":"c","producerGroup":""}'
    )
    assert read_json(text, UnregisterClientHeader) == UnregisterClientHeader(
        client_id="c", producer_group=""
    )


@pytest.mark.parametrize("fields", [NO_FIELDS, msgspec.Raw(b"{}"), msgspec.Raw(b" null ")])
@pytest.mark.parametrize("shape", [NoHeader, QueryConsumeQueueHeader])
def test_missing_fields_are_accepted_if_none_is_required(fields, shape):
    assert read_header(Command(code=1, fields=fields), shape) == shape()


def test_no_fields_where_some_are_required():
    with pytest.raises(BadHeader, match=r"RouteHeader: .*topic"):
        read_header(Command(code=1), RouteHeader)


@pytest.mark.parametrize(
    "text",
    [
        b'{"topic":{"a":1}}', b'{"topic":["a"]}', b"[]", b"1", b'"topic"', b'{"topic":"\xff"}',
    ],
)  # fmt: skip
def test_fields_that_do_not_fit(text):
    with pytest.raises(BadHeader):
        read_json(text, RouteHeader)


@pytest.mark.parametrize("number", ["2147483648", "-2147483649", "1.5", "0x10", "", " 1", "1_0"])
def test_numbers_that_java_cannot_hold(number):
    with pytest.raises(BadHeader, match="queueId"):
        read({"queueId": number}, QueryConsumeQueueHeader)


def test_a_v2_header_is_a_send_header():
    """A client that leaves out l and m, as one in another language does."""
    fields = dict(zip("abcdefgh", ["p", "t", "TBW102", "4", "1", "0", "99", "0"], strict=True))
    header = read(fields, SendHeaderV2)
    assert isinstance(header, SendHeader)
    assert (header.producer_group, header.queue_id, header.born_timestamp) == ("p", 1, 99)
    assert (header.max_reconsume_times, header.batch, header.broker_name) == (None, False, None)


@pytest.mark.parametrize("region_id", ["DefaultRegion", '100 % "north"'])
def test_replies_to_sends_by_columns(region_id):
    columns = [0, 1 << 40], [3, 0], [7, 1 << 50]
    assert send_replies("7F00000100002A9F%016X", region_id, True, *columns) == [
        bytes(
            write_header(
                TracedReplyHeader(
                    msg_id=f"7F00000100002A9F{place:016X}", queue_id=queue_id,
                    queue_offset=queue_offset, region_id=region_id, trace_on=True,
                )
            )
        )
        for place, queue_id, queue_offset in zip(*columns, strict=True)
    ]  # fmt: skip


def test_nothing_to_write():
    assert write_header(None) is NO_FIELDS
    assert write_header(NoHeader()) is NO_FIELDS


@pytest.mark.parametrize("shape", HEADERS)
def test_headers_are_values(shape):
    assert issubclass(shape, Header)
    assert shape.__struct_config__.frozen
