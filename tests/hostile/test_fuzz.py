"""Fuzzed frames: the decoder raises only PeerError, and every readable request is answered.

COMETMQ_FUZZ_SEED and COMETMQ_FUZZ_CASES choose the cases.
"""

import asyncio
import gc
import json
import logging
import os
import random
import resource
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from cometmq.errors import PeerError
from cometmq.namesrv.config import UPDATE_RULES, NamesrvConfig
from cometmq.namesrv.handlers import build_routes
from cometmq.namesrv.kv_table import KvTable
from cometmq.namesrv.route_table import RouteTable
from cometmq.protocol.bodies.register import RegisterBroker, encode_register
from cometmq.protocol.bodies.tables import TopicConfig, TopicConfigTable
from cometmq.protocol.codes import VERSION
from cometmq.protocol.command import Codec, Command
from cometmq.protocol.frame import FrameDecoder, encode_frame, encode_head
from cometmq.protocol.headers.base import write_fields, write_header
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import body_crc
from cometmq.remoting.dispatch import FAILED, Call, Dispatcher, Reply
from cometmq.remoting.lanes import Lanes
from cometmq.settings.live_settings import LiveSettings
from cometmq.testing.clock import ManualClock
from hostile.rig import BODIES, CODES, FIELDS, VALUES, json_frame

pytestmark = pytest.mark.timeout(1800)  # more than a minute of CPU time on a fast machine

GOLDEN = Path(__file__).parent.parent / "golden"
SEED = int(os.environ.get("COMETMQ_FUZZ_SEED", "4097"))
CASES = int(os.environ.get("COMETMQ_FUZZ_CASES", "300000"))
GROWTH_MAX = 16 << 20  # bytes of memory during the second half of the cases

# Tokens of JSON, and invalid ones.
TOKENS = (
    *(b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"null", b"true", b"false", b"0", b"-1"),
    *(b"9" * 20, b"9" * 5000, b"1e400", b"1.5", b'""', b'"x"', b"\\u0000", b"\\ud800", b"NaN"),
    *(b"\0", b"\xff", b"\xed\xa0\x80", b"\x1b", b"2147483648", b"-2147483649", b"[" * 2000),
)
FIELD_NAMES = [name.encode() for name in FIELDS]
SIZES = (0, 1, 3, 4, 5, 255, 65535, 65536, 2**24 - 1, 2**24, 2**31 - 1, 2**31, 2**32 - 1)


# Cases ------------------------------------------------------------------------------------------


def golden_frames() -> list[bytes]:
    frames = []
    for name in ("frames.json", "captures.json"):
        entries = json.loads((GOLDEN / name).read_text())["entries"]
        frames += [bytes.fromhex(entry["hex"]) for entry in entries]
    assert len(frames) > 100
    return frames


def name_server_frames() -> list[bytes]:
    """Return a valid request of each code, in both codecs."""
    told = RegisterBroker(
        filter_server_list=["f"],
        topics=TopicConfigTable(topic_config_table={"T": TopicConfig(topic_name="T")}),
    )
    texts = {
        "namespace": "n",
        "key": "k",
        "value": "v",
        "topic": "T",
        "cluster": "c",
        "brokerName": "b",
        "brokerAddr": "127.0.0.1:1",
        "clusterName": "c",
        "brokerId": "0",
        "haServerAddr": "h",
        "acceptStandardJsonOnly": "true",
    }
    frames = []
    for codec in Codec:
        for compressed in (False, True):
            body = encode_register(told, compressed=compressed)
            for crc in (0, body_crc(body)):
                said = {"compressed": str(compressed).lower(), "bodyCrc32": str(crc)}
                fields = write_fields(texts | said)
                frames.append(request(103, codec, fields, body))
        for code in server().routes:
            body = {318: b"clusterTest=true\n", 322: b'{"counter":1,"timestamp":2}'}.get(code, b"")
            frames.append(request(code, codec, write_fields(texts), body))
    return frames


def request(code: int, codec: Codec, fields: Any, body: bytes) -> bytes:
    return encode_frame(
        Command(code=code, codec=codec, fields=fields, body=body, version=VERSION, opaque=1)
    )


class Mutator:
    """Mutates frames, deterministically for a seed."""

    def __init__(self, frames: list[bytes], seed: int) -> None:
        self._frames = frames
        self._chance = random.Random(seed)
        self._ways = (self._flip, self._cut, self._splice, self._resize, self._token, self._insert)

    def cases(self, count: int) -> Iterator[bytes]:
        chance, frames, ways = self._chance, self._frames, self._ways
        for _ in range(count):
            data = bytearray(frames[int(chance.random() * len(frames))])
            for _ in range(1 + int(chance.random() * 3)):
                ways[int(chance.random() * len(ways))](data)
            yield bytes(data)

    def _at(self, data: bytearray) -> int:
        return int(self._chance.random() * (len(data) or 1))

    def _flip(self, data: bytearray) -> None:
        if data:
            data[self._at(data)] ^= 1 << int(self._chance.random() * 8)

    def _cut(self, data: bytearray) -> None:
        if self._chance.random() < 0.5:
            del data[self._at(data) :]
        else:
            at = self._at(data)
            del data[at : at + 1 + int(self._chance.random() * 8)]
            self._mend(data)

    def _splice(self, data: bytearray) -> None:
        other = self._frames[int(self._chance.random() * len(self._frames))]
        data[self._at(data) :] = other[int(self._chance.random() * len(other)) :]
        if self._chance.random() < 0.5:
            self._mend(data)

    def _resize(self, data: bytearray) -> None:
        if self._chance.random() < 0.3:
            size = SIZES[int(self._chance.random() * len(SIZES))]
            at = 0 if self._chance.random() < 0.5 else self._at(data)
            data[at : at + 4] = size.to_bytes(4)
        elif len(data) >= 8:
            data[7] = (data[7] + int(self._chance.random() * 9) - 4) & 0xFF

    def _token(self, data: bytearray) -> None:
        """Replace one byte by a token and correct the sizes of the frame."""
        at = self._at(data)
        token = TOKENS[int(self._chance.random() * len(TOKENS))]
        in_header = at < 8 + int.from_bytes(data[5:8])
        data[at : at + 1] = token
        self._mend(data, len(token) - 1 if in_header and at >= 8 else 0)

    def _insert(self, data: bytearray) -> None:
        at = self._at(data)
        data[at:at] = self._chance.randbytes(1 + int(self._chance.random() * 8))

    @staticmethod
    def _mend(data: bytearray, header_grown: int = 0) -> None:
        """Correct the sizes of the frame, so that its content is parsed."""
        if len(data) >= 8:
            data[:4] = (len(data) - 4).to_bytes(4)
            if header_grown:
                header = max(0, int.from_bytes(data[5:8]) + header_grown) & 0xFFFFFF
                data[5:8] = header.to_bytes(3)


def aimed_cases(seed: int, count: int) -> Iterator[bytes]:
    """Yield valid frames with arbitrary fields and bodies, which reach the handlers."""
    chance = random.Random(seed)
    told = RegisterBroker(topics=TopicConfigTable(topic_config_table={"T": TopicConfig()}))
    plain, packed = encode_register(told), zlib.decompress(encode_register(told, compressed=True))
    values = [value for value in VALUES if len(value) < 1000]
    good = [b'"%d"' % n for n in range(3)] + [b'"a"', b'"b"', b'"true"', b'"false"']
    for _ in range(count):
        known = chance.random() < 0.95
        code = chance.choice(CODES) if known else int(chance.random() * 400) - 50
        if chance.random() < 0.4:
            code = 103
        fields = [
            b'"%b":%b' % (name, chance.choice(values if chance.random() < 0.1 else good))
            for name in FIELD_NAMES
            if chance.random() < 0.95
        ]
        if code == 103 and chance.random() < 0.8:
            deflate = chance.random() < 0.5
            body = bytearray(packed if deflate else plain)
            break_body(body, chance)
            body = zlib.compress(body, 1) if deflate else bytes(body)
            fields += [b'"compressed":"%b"' % (b"true" if deflate else b"false")]
            fields += [b'"bodyCrc32":"%d"' % body_crc(body), b'"brokerId":"0"']
        else:
            body = chance.choice(BODIES)
        version = VERSION if chance.random() < 0.8 else int(chance.random() * 100)
        yield json_frame(int(code), b"{%b}" % b",".join(fields), body, version=version)


def break_body(body: bytearray, chance: random.Random) -> None:
    for _ in range(int(chance.random() * 4)):
        at = int(chance.random() * len(body))
        if chance.random() < 0.5:
            body[at] ^= 1 << int(chance.random() * 8)
        else:
            body[at : at + int(chance.random() * 3)] = chance.choice(TOKENS)


def hammer(cases: Iterator[bytes], count: int, swallow: Callable[[bytes], None], name: str) -> None:
    """Feed every case; memory must not grow during the second half."""
    middle_size = 0
    for number, data in enumerate(cases):
        if number == count // 2:
            middle_size = memory_size()
        try:
            swallow(data)
        except BaseException as error:
            error.add_note(f"{name}: case {number} of COMETMQ_FUZZ_SEED={SEED}: {data.hex()}")
            raise
    assert memory_size() - middle_size < GROWTH_MAX


def memory_size() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


# Targets ----------------------------------------------------------------------------------------


class FakeDisk:
    """A disk that stores nothing."""

    def read(self, path: Path) -> bytes:
        raise FileNotFoundError

    def replace(self, path: Path, content: bytes) -> None:
        content.decode()

    def begin(self, work: Callable[[], None]) -> Future[None]:
        done: Future[None] = Future()
        done.set_result(work())
        return done


class FakeLink:
    """A connection that is never used."""

    peer = Host("127.0.0.1", 1)


def server() -> Dispatcher:
    """Return a name server without sockets or files."""
    config = NamesrvConfig(kv_config_path="kv", config_store_path="config")
    disk = FakeDisk()
    kv = KvTable(disk, Path("kv"))
    live = LiveSettings((config,), UPDATE_RULES, Path("config"), disk)
    return Dispatcher(build_routes(RouteTable(), kv, live, ManualClock()), Lanes(10))


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Disable the log lines of refusals."""
    logging.disable(logging.INFO)
    yield
    logging.disable(logging.NOTSET)


def test_decoder_raises_only_peer_errors():
    frames = golden_frames() + name_server_frames()
    chance = random.Random(SEED)
    seen = {"commands": 0, "errors": 0, "begun": 0}

    def swallow(data: bytes) -> None:
        decoder = FrameDecoder()
        cut = int(chance.random() * len(data)) if chance.random() < 0.3 else len(data)
        try:
            for part in (data[:cut], data[cut:]) if cut < len(data) else (data,):
                for command in decoder.feed(part):
                    assert type(command) is Command
                    seen["commands"] += 1
                    command.ext_fields  # noqa: B018 - BadHeader, or text to text
        except PeerError:
            seen["errors"] += 1
        else:
            seen["begun"] += decoder.pending_size > 0
        assert decoder.pending_size <= len(data)

    count = CASES * 7 // 10
    hammer(Mutator(frames, SEED).cases(count), count, swallow, "decoder")
    assert min(seen.values()) > count // 50, f"the cases are not diverse enough: {seen}"


def test_every_readable_request_is_answered():
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        dispatcher = server()
        link: Any = FakeLink()
        codes: dict[int, int] = {}
        refreshed = 0

        def swallow(data: bytes) -> None:
            nonlocal dispatcher, refreshed
            refreshed += 1
            if refreshed % 20_000 == 0:
                dispatcher = server()  # the content of its tables is not a leak
            try:
                for command in FrameDecoder().feed(data):
                    reply = dispatcher.answer(Call(command, link, 0))
                    if not isinstance(reply, Reply):
                        reply = loop.run_until_complete(reply)
                    assert reply is not FAILED, "an internal error was logged"
                    codes[reply.code] = codes.get(reply.code, 0) + 1
                    encode(command, reply)
            except PeerError:
                return

        count = CASES - CASES * 7 // 10
        mutated = Mutator(name_server_frames(), SEED + 1).cases(count // 3)
        aimed = aimed_cases(SEED + 2, count - count // 3)
        hammer(chain(mutated, aimed), count, swallow, "dispatcher")
        assert min(codes[0], codes[1]) > count // 10, f"the cases are not diverse enough: {codes}"


def encode(request: Command, reply: Reply) -> None:
    """Encode a reply like a connection does; only TooLarge may be raised."""
    encode_head(
        Command(
            code=reply.code,
            codec=request.codec,
            remark=reply.remark,
            fields=write_header(reply.header),
        ),
        len(reply.body),
    )
