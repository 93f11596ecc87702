"""Malformed frames, headers and bodies: each gets a response or a closed connection."""

import random
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from cometmq.namesrv.handlers import build_routes
from cometmq.namesrv.route_table import RouteTable
from cometmq.protocol.bodies.register import RegisterBroker, encode_register
from cometmq.protocol.bodies.tables import TopicConfig, TopicConfigTable
from cometmq.protocol.codes import RequestCode as Code
from cometmq.protocol.limits import FRAME_SIZE_MAX
from cometmq.protocol.records.message import body_crc
from hostile.rig import (
    BODIES,
    CODES,
    FIELDS,
    NOT_TEXT,
    VALUES,
    NameServerProcess,
    fields_of,
    frame,
    healthy,
    json_frame,
    name_server_process,
    register_fields,
)
from remoting.rig import on_asyncio, raw_peer, until

CLOSED = "closed"
DEEP = 100_000
QUERY_FIELDS = fields_of(brokerName="b", brokerAddr="127.0.0.1:1", clusterName="c", brokerId=0)


def binary_frame(code: int, fields: bytes, body: bytes = b"") -> bytes:
    head = struct.pack(">hbhiii", code, 0, 373, 77, 0, 0)
    return frame(head + struct.pack(">i", len(fields)) + fields, body, codec=1)


def binary_fields(count: int) -> bytes:
    return b"".join(struct.pack(">h5si1s", 5, b"%05d" % n, 1, b"v") for n in range(count))


# What is sent, and the result: a closed connection, or a response with this code.
ATTACKS: dict[str, tuple[bytes, object]] = {
    "announces 16 MiB and a byte": (frame(b"", size=FRAME_SIZE_MAX - 3), CLOSED),
    "announces 2 GiB": (frame(b"", size=2**31 - 1), CLOSED),
    "announces less than nothing": (frame(b"", size=-1), CLOSED),
    "announces the least int": (frame(b"", size=-(2**31)), CLOSED),
    "announces zero": (frame(b"", size=0), CLOSED),
    "too small for its own size": (frame(b"", size=3), CLOSED),
    "a negative header": (frame(b"{}", header_size=-1), CLOSED),
    "a header beyond the frame": (frame(b"{}", header_size=100), CLOSED),
    "a header of 16 MiB": (frame(b"{}", size=FRAME_SIZE_MAX - 4, header_size=0xFFFFF0), CLOSED),
    "an unknown codec": (frame(b"{}", codec=2), CLOSED),
    "HTTP": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", CLOSED),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00" + bytes(200), CLOSED),
    "no header": (frame(b""), CLOSED),
    "a header that is no JSON": (frame(b"code=105"), CLOSED),
    "a header that is a list": (frame(b"[]"), CLOSED),
    "a header without a code": (frame(b"{}"), CLOSED),
    "a header that is no UTF-8": (frame(b'{"code":105,"remark":"\xff\xfe"}'), CLOSED),
    "a lone surrogate": (frame(b'{"code":105,"remark":"\\ud800"}'), CLOSED),
    "deep lists as a header": (frame(b"[" * DEEP), CLOSED),
    "deep lists as fields": (json_frame(105, b"[" * DEEP + b"]" * DEEP), CLOSED),
    "deep objects as a field": (
        json_frame(105, b'{"topic":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}"),
        CLOSED,
    ),
    "deep lists as a body": (json_frame(Code.QUERY_DATA_VERSION, QUERY_FIELDS, b"[" * DEEP), 1),
    "deep objects as a body": (
        json_frame(103, register_fields(), b'{"a":' * DEEP + b"1" + b"}" * DEEP),
        1,
    ),
    "deep objects in the dialect": (
        json_frame(103, register_fields(), b"{a:" * DEEP + b"1" + b"}" * DEEP),
        1,
    ),
    "100 000 fields": (
        json_frame(105, b"{" + b",".join(b'"%05d":1' % n for n in range(90_000)) + b"}"),
        1,
    ),
    "100 000 binary fields": (binary_frame(105, binary_fields(80_000)), CLOSED),
    "4 097 binary fields": (binary_frame(105, binary_fields(4097)), CLOSED),
    "4 096 binary fields": (binary_frame(105, binary_fields(4096)), 1),
    "a binary field of -1": (binary_frame(105, struct.pack(">h", -1)), CLOSED),
    "a binary value of 2 GiB": (binary_frame(105, b"\0\1a\x7f\xff\xff\xff"), CLOSED),
    "a binary header of no fields": (binary_frame(105, b""), 1),
    "5 M digits": (json_frame("9" * 5_000_000), CLOSED),
    "a million digits in code": (json_frame("9" * 1_000_000), CLOSED),
    "a million digits in a field": (json_frame(103, register_fields(brokerId="9" * 1_000_000)), 1),
    "a million bare digits in a field": (
        json_frame(103, b'{"brokerId":%b}' % (b"9" * 1_000_000)),
        1,
    ),
    "1e400 as a code": (json_frame("1e400"), CLOSED),
    "1e400 as a field": (json_frame(103, register_fields(brokerId="1e400")), 1),
    "1e400 bare": (json_frame(105, b'{"topic":1e400}'), 1),
    "a body of 5 M digits": (
        json_frame(Code.QUERY_DATA_VERSION, QUERY_FIELDS, b'{"counter":' + b"9" * 5_000_000 + b"}"),
        1,
    ),
    "a body of 1e400": (json_frame(Code.QUERY_DATA_VERSION, QUERY_FIELDS, b'{"counter":1e400}'), 1),
    "a body of NaN": (json_frame(Code.QUERY_DATA_VERSION, QUERY_FIELDS, b'{"counter":NaN}'), 1),
    "a topic of a million letters": (json_frame(105, fields_of(topic="x" * 1_000_000)), None),
    "a code that nobody has": (json_frame(2**31 - 1), 3),
    "a negative code": (json_frame(-1), 3),
}
for name in ("code", "opaque", "flag", "version"):
    for number in (2**31, 2**63, 2**64, -(2**63) - 1, 10**30, 1.5, '"x"', "[]", "true"):
        ATTACKS[f"{number} as {name}"] = (json_frame(**({"code": 105} | {name: number})), CLOSED)
for number in (2**63, 2**64, -(2**63) - 1, 10**30, 1.5, "x", "", "0x1", "1_0", "١"):
    ATTACKS[f"{number} as brokerId"] = (json_frame(103, register_fields(brokerId=number)), 1)
for number in (2**31, 2**64, -(2**31) - 1, 10**30):
    ATTACKS[f"{number} as bodyCrc32"] = (json_frame(103, register_fields(bodyCrc32=number)), 1)
    for field in ("readQueueNums", "perm", "topicSysFlag"):
        told = b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"%b":%d}}}}'
        body = told % (field.encode(), number)
        ATTACKS[f"{number} as {field}"] = (json_frame(103, register_fields(), body), 1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: Any) -> Iterator[NameServerProcess]:
    with name_server_process(tmp_path_factory.mktemp("frames")) as process:
        yield process


@on_asyncio
async def test_bad_frames_are_answered_or_close_the_connection(server):
    async with healthy(server) as client:
        before, files, memory = await client.state(), server.file_count(), server.rss()
        for name, (sent, outcome) in ATTACKS.items():
            async with raw_peer(server.port) as peer:
                with suppress(ConnectionError):  # closed before everything was sent
                    await peer.send(sent)
                answer = await peer.command()
                if outcome is CLOSED:
                    assert answer is None, f"{name}: {answer}"
                else:
                    assert answer is not None, f"{name}: closed"
                    assert answer.opaque == 77, name
                    assert "see its log" not in str(answer.remark), name
                    if outcome is not None:
                        assert answer.code == outcome, f"{name}: {answer.code} {answer.remark}"
        assert await client.state() == before
        await until(lambda: server.file_count() <= files)
        assert server.rss() - memory < 64 << 20
        assert "Traceback" not in server.log.read_text()


@on_asyncio
async def test_good_frames_before_a_bad_one_are_answered(server):
    async with healthy(server), raw_peer(server.port) as peer:
        good = json_frame(105, fields_of(topic="Healthy"))
        await peer.send(good + good + b"\xff" * 20 + good)
        for _ in range(2):
            answer = await peer.command()
            assert answer is not None
            assert answer.code == 0
        assert await peer.command() is None


@on_asyncio
async def test_truncated_register_body_changes_nothing(server):
    topics = {f"Cut{n}": TopicConfig(topic_name=f"Cut{n}") for n in range(3)}
    told = RegisterBroker(
        filter_server_list=["f"], topics=TopicConfigTable(topic_config_table=topics)
    )
    async with healthy(server) as client, raw_peer(server.port) as peer:
        before = await client.state()
        for compressed in (False, True):
            body = encode_register(told, compressed=compressed)
            inner = zlib.decompress(body) if compressed else body
            cuts = [body[:n] for n in range(1, len(body))]
            if compressed:
                cuts += [zlib.compress(inner[:n]) for n in range(len(inner))]
            said = {"compressed": "true" if compressed else "false"}
            for cut in cuts:
                for crc in {0, body_crc(cut), body_crc(body) or 1}:
                    fields = register_fields(bodyCrc32=crc, **said)
                    await peer.send(json_frame(103, fields, cut))
                    answer = await peer.command()
                    assert answer is not None
                    assert answer.code == 1, (cut, answer.remark)
                    assert "see its log" not in str(answer.remark), cut
        assert await client.state() == before


# The 20 codes -----------------------------------------------------------------------------------


def test_codes_match_the_server_routes():
    nothing: Any = None
    assert len(CODES) == 20
    assert set(CODES) == set(build_routes(RouteTable(), nothing, nothing, nothing))


@on_asyncio
async def test_every_code_answers_any_fields_and_body(tmp_path):
    chance = random.Random(20)
    with name_server_process(tmp_path) as server:
        async with healthy(server) as client, raw_peer(server.port) as peer:
            for number in range(4000):
                names = chance.sample(FIELDS, chance.randrange(len(FIELDS) + 1))
                fields = b",".join(b'"%b":%b' % (n.encode(), chance.choice(VALUES)) for n in names)
                code, body = chance.choice(CODES), chance.choice(BODIES)
                version = chance.choice((0, 1, 200, 373, 400, 2**31 - 1, -1))
                await peer.send(json_frame(code, b"{%b}" % fields, body, version=version))
                answer = await peer.command()
                assert answer is not None, (number, code, fields[:200], body)
                assert "see its log" not in str(answer.remark), (code, fields[:200], body)
            assert client.count > 0
        assert "Traceback" not in server.log.read_text()


@on_asyncio
async def test_refused_requests_change_nothing(server):
    asking = {
        Code.PUT_KV_CONFIG: ("namespace", "key", "value"),
        Code.GET_KV_CONFIG: ("namespace", "key"),
        Code.DELETE_KV_CONFIG: ("namespace", "key"),
        Code.REGISTER_BROKER: (
            *("brokerName", "brokerAddr", "clusterName", "haServerAddr", "brokerId"),
        ),
        Code.UNREGISTER_BROKER: ("brokerName", "brokerAddr", "clusterName", "brokerId"),
        Code.GET_ROUTEINFO_BY_TOPIC: ("topic",),
        Code.WIPE_WRITE_PERM_OF_BROKER: ("brokerName",),
        Code.ADD_WRITE_PERM_OF_BROKER: ("brokerName",),
        Code.DELETE_TOPIC_IN_NAMESRV: ("topic",),
        Code.GET_KVLIST_BY_NAMESPACE: ("namespace",),
        Code.GET_TOPICS_BY_CLUSTER: ("cluster",),
        Code.QUERY_DATA_VERSION: ("brokerName", "brokerAddr", "clusterName", "brokerId"),
    }
    # Values that would affect the healthy broker if the request succeeded without its last field.
    good = {
        "namespace": b'"n"',
        "key": b'"k"',
        "value": b'"v"',
        "brokerName": b'"healthy-broker"',
        "brokerAddr": b'"127.0.0.1:10911"',
        "clusterName": b'"healthy-cluster"',
        "haServerAddr": b'"h"',
        "brokerId": b'"0"',
        "topic": b'"Healthy"',
        "cluster": b'"c"',
    }
    async with healthy(server) as client, raw_peer(server.port) as peer:
        before = await client.state()
        for code, names in asking.items():
            for bad in names:
                for value in (None, b"null", b"[]", b"{}", b'{"a":1}'):
                    texts = {name: good[name] for name in names if name != bad}
                    if value is not None:
                        texts[bad] = value
                    fields = b",".join(b'"%b":%b' % (n.encode(), v) for n, v in texts.items())
                    await peer.send(json_frame(code, b"{%b}" % fields))
                    answer = await peer.command()
                    assert answer is not None
                    assert answer.code == 1, (code, bad, value, answer.remark)
                    assert bad in str(answer.remark) or "extFields" in str(answer.remark)
        for body in (b"listenPort=1", b"kvConfigPath=/x", b"rocketmqHome=/x", b"clusterTest=maybe"):
            await peer.send(json_frame(Code.UPDATE_NAMESRV_CONFIG, b"{}", body))
            answer = await peer.command()
            assert answer is not None
            assert answer.code != 0, body
        assert await client.state() == before


@on_asyncio
async def test_control_characters_are_escaped_in_logs(tmp_path):
    evil = "\\r\\n2026-01-01 00:00:00.000 ERROR forged: line\\u001b[2J\\u0007\\u009b\\u2028\\u0000"
    with name_server_process(tmp_path, log_level="debug") as server:
        async with healthy(server) as client, raw_peer(server.port) as peer:
            for code in CODES:
                fields = fields_of(**{name: evil for name in FIELDS if name not in NOT_TEXT})
                fields = fields[:-1] + b',"brokerId":"0"}'
                for body in (b"", b"productEnvName=a\\r\\n\x1b[2Jb\\u001b", b"\x1b\r\n=\r\n"):
                    await peer.send(json_frame(code, fields, body))
                    assert await peer.command()
            for header in (b'{"code":"\x1b[2J\\u001b"}', b"\x1b\r\n\x07"):
                async with raw_peer(server.port) as other:
                    await other.send(frame(header))
                    await other.closed()
            assert client.count > 0
    raw = Path(tmp_path / "namesrv.log").read_bytes()
    assert b"forged" in raw, "the log does not contain the values"
    assert not [c for c in raw if (c < 32 and c != 10) or c == 127]
    assert "\x9b" not in raw.decode()
    assert "\u2028" not in raw.decode()
    assert not [line for line in raw.decode().split("\n") if line.startswith("2026-01-01 00:00:00")]
