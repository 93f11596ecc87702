"""Real traffic between Apache's processes: every frame, header and body of it."""

import msgspec
import pytest

from cometmq.protocol.bodies import consumer, heartbeat, register, route, stats, tables
from cometmq.protocol.frame import FrameDecoder, encode_frame
from cometmq.protocol.headers import client, namesrv, offset, pull, query, send, topic
from cometmq.protocol.headers import consumer as consumer_headers
from cometmq.protocol.headers.base import NoHeader, read_header, write_header
from cometmq.protocol.java.fastjson import dumps, loads
from cometmq.protocol.records.message import StoredMessage, body_crc, pack_record, unpack_records
from protocol.golden import bytes_of, each, entries

BYTES = "the user's own"
RECORDS = "stored records"
# By request code: the header and body of the request, then of the answer; None is an empty body.
EXCHANGES = {
    11: (pull.PullHeader, None, pull.PullReplyHeader, RECORDS),
    12: (query.QueryMessageHeader, None, query.QueryMessageReplyHeader, RECORDS),
    14: (offset.QueryOffsetHeader, None, offset.OffsetReplyHeader, None),
    15: (offset.UpdateOffsetHeader, None, NoHeader, None),
    17: (topic.CreateTopicHeader, None, NoHeader, None),
    28: (NoHeader, None, NoHeader, tables.KeyValues),
    34: (NoHeader, heartbeat.Heartbeat, NoHeader, None),
    35: (client.UnregisterClientHeader, None, NoHeader, None),
    38: (client.ConsumerGroupHeader, None, NoHeader, heartbeat.ConsumerIds),
    40: (client.ConsumerGroupHeader, None, NoHeader, None),
    100: (namesrv.PutKvHeader, None, NoHeader, None),
    101: (namesrv.KvHeader, None, namesrv.KvReplyHeader, None),
    102: (namesrv.KvHeader, None, NoHeader, None),
    103: (
        namesrv.RegisterBrokerHeader,
        register.RegisterBroker,
        namesrv.RegisterBrokerReplyHeader,
        tables.KeyValues,
    ),
    104: (namesrv.BrokerHeader, None, NoHeader, None),
    105: (namesrv.RouteHeader, None, NoHeader, route.TopicRoute),
    106: (NoHeader, None, NoHeader, route.ClusterInfo),
    200: (NoHeader, tables.GroupConfig, NoHeader, None),
    202: (topic.TopicHeader, None, NoHeader, stats.TopicStats),
    203: (client.ConsumerGroupHeader, None, NoHeader, consumer.ConsumerConnection),
    205: (namesrv.WritePermHeader, None, namesrv.WipedReplyHeader, None),
    206: (NoHeader, None, NoHeader, route.TopicList),
    208: (consumer_headers.ConsumeStatsHeader, None, NoHeader, stats.ConsumeStats),
    215: (topic.TopicHeader, None, NoHeader, None),
    216: (namesrv.DeleteTopicHeader, None, NoHeader, None),
    220: (consumer_headers.ResetOffsetHeader, consumer.ResetOffsets, NoHeader, None),
    222: (consumer_headers.ResetOffsetHeader, None, NoHeader, consumer.ResetOffsets),
    307: (consumer_headers.RunningInfoHeader, None, NoHeader, consumer.ConsumerRunningInfo),
    310: (send.SendHeaderV2, BYTES, send.SendReplyHeader, None),
    317: (consumer_headers.BrokerConsumeStatsHeader, None, NoHeader, stats.ConsumeStatsList),
    321: (query.QueryConsumeQueueHeader, None, NoHeader, stats.QueueUnits),
    322: (
        namesrv.BrokerHeader,
        tables.DataVersion,
        namesrv.DataVersionReplyHeader,
        tables.DataVersion,
    ),
    327: (namesrv.WritePermHeader, None, namesrv.AddedReplyHeader, None),
}
# Fields that are in the answer to a send and belong to no header class.
BESIDE = {"TRACE_ON", "MSG_REGION"}
STANDARD = {105}  # asked for by clients of version 407


def decode(entry):
    (command,) = FrameDecoder().feed(bytes_of(entry))
    return command


def shapes(entry):
    exchange = EXCHANGES[entry["value"]["requestCode"]]
    return exchange[2:] if decode(entry).is_response else exchange[:2]


def bodies():
    return [entry for entry in entries("captures") if decode(entry).body]


each_body = pytest.mark.parametrize("entry", bodies(), ids=[entry["name"] for entry in bodies()])


def test_all_kinds_are_here():
    assert {entry["value"]["requestCode"] for entry in entries("captures")} == EXCHANGES.keys()


@each("captures")
def test_frames_both_ways(entry):
    command, header = decode(entry), entry["value"]["header"]
    assert command.code == header["code"]
    assert command.ext_fields == header.get("extFields", {})
    assert command.remark == header.get("remark")
    assert encode_frame(command).hex() == entry["hex"]


@each("captures")
def test_headers_both_ways(entry):
    command, (shape, _) = decode(entry), shapes(entry)
    if command.is_response and command.code and not command.ext_fields:
        shape = NoHeader  # a refusal carries only its remark
    header = read_header(command, shape)
    written = msgspec.json.decode(write_header(header), type=dict[str, str] | None) or {}
    theirs = {name: text for name, text in command.ext_fields.items() if name not in BESIDE}
    assert theirs.items() <= written.items()
    # What we write beyond it is a default: false, which they leave out.
    assert {written[name] for name in written.keys() - theirs.keys()} <= {"false"}


@each_body
def test_bodies_both_ways(entry):
    command, (_, shape) = decode(entry), shapes(entry)
    assert shape is not None, "a body where none is expected"
    if shape is BYTES:
        assert command.body == b"hello-0"
    elif shape is RECORDS:
        messages = list(unpack_records(command.body))
        assert all(isinstance(message, StoredMessage) for message in messages)
        assert messages[0].properties["UNIQ_KEY"] in messages[0].properties_text
        assert b"".join(map(pack_record, messages)) == command.body
    else:
        value = loads(command.body, shape)
        standard = entry["value"]["requestCode"] in STANDARD
        assert dumps(value, standard=standard).decode() == command.body.decode()


@each("captures", "103/request")
def test_the_checksum_of_a_registration(entry):
    command = decode(entry)
    header = read_header(command, namesrv.RegisterBrokerHeader)
    assert body_crc(command.body) == header.body_crc32
    assert not header.compressed
