"""A name server process, a healthy client, and malformed frames."""

import asyncio
import os
import re
import resource
import signal
import struct
import subprocess
import sys
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from cometmq.protocol.bodies.register import RegisterBroker, encode_register
from cometmq.protocol.bodies.tables import DataVersion, TopicConfig, TopicConfigTable
from cometmq.protocol.codes import VERSION, RequestCode
from cometmq.protocol.codes import RequestCode as Code
from cometmq.protocol.command import Command
from cometmq.protocol.headers import namesrv as headers
from cometmq.protocol.records.message import body_crc
from cometmq.remoting.pool import Pool
from remoting.rig import pooling

CALL_MS_MAX = 15_000  # response time of a healthy client on a busy machine
# CPU time that the server may spend on other requests first. CPU time, not elapsed time, because
# the machine may be busy. The server needs at most 0.1 s.
SLOWEST_S_MAX = 1.0
TOPIC, BROKER, CLUSTER = "Healthy", "healthy-broker", "healthy-cluster"
_COMMAND = "import sys; from cometmq.cli import main; sys.argv[0] = 'cometmq'; main()"


class NameServerProcess:
    """A name server in a subprocess."""

    def __init__(self, process: "subprocess.Popen[str]", port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def rss(self) -> int:
        """Return the resident memory in bytes."""
        return self._status("VmRSS")

    def peak_rss(self) -> int:
        """Return the peak of the resident memory in bytes."""
        return self._status("VmHWM")

    def file_count(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def cpu_s(self) -> float:
        """Return the CPU time of the process in seconds."""
        stat = Path(f"/proc/{self.process.pid}/stat").read_text()
        user, system = stat.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _status(self, name: str) -> int:
        text = Path(f"/proc/{self.process.pid}/status").read_text()
        found = re.search(rf"{name}:\s+(\d+) kB", text)
        assert found, name
        return int(found[1]) << 10

    def assert_alive(self) -> None:
        assert self.process.poll() is None, self.log.read_text()[-2000:]

    def stop(self) -> None:
        """Stop with SIGTERM; the exit code must be 0."""
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=60) == 0, self.log.read_text()[-2000:]


class Here:
    """A name server in this process."""

    def __init__(self, port: int) -> None:
        self.address = f"127.0.0.1:{port}"

    def cpu_s(self) -> float:
        return time.process_time()


@contextmanager
def name_server_process(
    folder: Path, *settings: str, files_max: int | None = None, log_level: str = "info"
) -> Iterator[NameServerProcess]:
    """Run a name server on a free port; its log is in the folder."""

    def limit() -> None:
        if files_max is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files_max, files_max))

    log = folder / "namesrv.log"
    given = [
        "listenPort=0",
        "bindAddress=127.0.0.1",
        f"kvConfigPath={folder / 'kv.json'}",
        f"configStorePath={folder / 'namesrv.properties'}",
        *settings,
    ]
    with log.open("w") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, "namesrv", "--log-level", log_level, *given],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=os.environ | {"PYTHONWARNINGS": "error"},
            preexec_fn=limit,
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.search(r"address \S+:(\d+)", line)
        assert found, line + log.read_text()
        server = NameServerProcess(process, int(found[1]), log)
        yield server
        server.assert_alive()
        server.stop()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        process.stdout.close()


# A healthy client -------------------------------------------------------------------------------


class Healthy:
    """A registered broker and a client that requests its route continuously."""

    def __init__(self, pool: Pool, server: NameServerProcess | Here) -> None:
        self.pool = pool
        self.server = server
        self.count = 0
        self.slowest_s = 0.0

    async def invoke(self, code: int, header: Any = None, body: bytes = b"") -> Command:
        return await self.pool.invoke(
            self.server.address, code, header, body, timeout_ms=CALL_MS_MAX
        )

    async def register(self) -> None:
        body = encode_register(
            RegisterBroker(
                topics=TopicConfigTable(
                    data_version=DataVersion(counter=1, timestamp=1),
                    topic_config_table={TOPIC: TopicConfig(topic_name=TOPIC)},
                )
            )
        )
        header = headers.RegisterBrokerHeader(
            broker_name=BROKER,
            broker_addr="127.0.0.1:10911",
            cluster_name=CLUSTER,
            ha_server_addr="127.0.0.1:10912",
            broker_id=0,
            body_crc32=body_crc(body),
        )
        answer = await self.invoke(RequestCode.REGISTER_BROKER, header, body)
        assert answer.code == 0, answer.remark

    async def check(self) -> None:
        """Request the route and record the CPU time that the server spent meanwhile."""
        begun_s = self.server.cpu_s()
        answer = await self.invoke(
            RequestCode.GET_ROUTEINFO_BY_TOPIC, headers.RouteHeader(topic=TOPIC)
        )
        assert answer.code == 0, answer.remark
        assert BROKER.encode() in answer.body
        self.count += 1
        self.slowest_s = max(self.slowest_s, self.server.cpu_s() - begun_s)

    async def keep_checking(self) -> None:
        while True:
            await self.check()
            await asyncio.sleep(0.01)

    async def state(self) -> list[bytes]:
        """Return the responses to all queries of the name server's state."""
        code = RequestCode
        questions: list[tuple[int, Any]] = [
            (code.GET_BROKER_CLUSTER_INFO, None),
            (code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, None),
            (code.GET_SYSTEM_TOPIC_LIST_FROM_NS, None),
            (code.GET_NAMESRV_CONFIG, None),
            (code.GET_ROUTEINFO_BY_TOPIC, headers.RouteHeader(topic=TOPIC)),
            (code.GET_KVLIST_BY_NAMESPACE, headers.KvListHeader(namespace="n")),
        ]
        answers = [await self.invoke(code, header) for code, header in questions]
        return [b"%d %b" % (answer.code, answer.body) for answer in answers]


@asynccontextmanager
async def healthy(
    server: NameServerProcess | Here, slowest_s: float = SLOWEST_S_MAX
) -> AsyncIterator[Healthy]:
    """Run a healthy client during the block and check once after it.

    The server may spend at most `slowest_s` of CPU time before it answers a request.
    """
    async with pooling() as pool:
        client = Healthy(pool, server)
        await client.register()
        await client.check()
        asking = asyncio.ensure_future(client.keep_checking())
        try:
            yield client
        finally:
            if not asking.done():
                asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        if not asking.cancelled():
            asking.result()
        await client.check()
        assert client.slowest_s < slowest_s, "one peer delays others"


# Frames -----------------------------------------------------------------------------------------


def frame(
    header: bytes,
    body: bytes = b"",
    *,
    codec: int = 0,
    size: int | None = None,
    header_size: int | None = None,
) -> bytes:
    """Build a frame from any parts, valid or not."""
    header_size = len(header) if header_size is None else header_size
    size = 4 + len(header) + len(body) if size is None else size
    return struct.pack(">iI", size, codec << 24 | header_size & 0xFFFFFF) + header + body


def json_frame(code: object, fields: bytes = b"{}", body: bytes = b"", **more: object) -> bytes:
    """Build a request from JSON texts, valid or not."""
    parts = {"code": code, "flag": 0, "opaque": 77, "version": VERSION, "language": '"JAVA"'} | more
    text = ",".join(f'"{name}":{value}' for name, value in parts.items())
    return frame(b'{%b,"extFields":%b}' % (text.encode(), fields), body)


def fields_of(**texts: object) -> bytes:
    """Return extension fields with string values."""
    parts = (b'"%b":"%b"' % (name.encode(), str(text).encode()) for name, text in texts.items())
    return b"{" + b",".join(parts) + b"}"


def register_fields(**changed: object) -> bytes:
    """Return registration fields of a broker other than the healthy one."""
    texts = {
        "brokerName": "other-broker",
        "brokerAddr": "127.0.0.1:20911",
        "clusterName": "other-cluster",
        "haServerAddr": "127.0.0.1:20912",
        "brokerId": 0,
        "bodyCrc32": 0,
        "compressed": "false",
    }
    return fields_of(**(texts | changed))


# Fields, values and bodies for the 20 codes ------------------------------------------------------

CODES = (
    *(Code.PUT_KV_CONFIG, Code.GET_KV_CONFIG, Code.DELETE_KV_CONFIG, Code.REGISTER_BROKER),
    *(Code.UNREGISTER_BROKER, Code.GET_ROUTEINFO_BY_TOPIC, Code.GET_BROKER_CLUSTER_INFO),
    *(Code.WIPE_WRITE_PERM_OF_BROKER, Code.ADD_WRITE_PERM_OF_BROKER),
    *(Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.DELETE_TOPIC_IN_NAMESRV),
    *(Code.GET_KVLIST_BY_NAMESPACE, Code.GET_TOPICS_BY_CLUSTER),
    *(Code.GET_SYSTEM_TOPIC_LIST_FROM_NS, Code.GET_UNIT_TOPIC_LIST),
    *(Code.GET_HAS_UNIT_SUB_TOPIC_LIST, Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST),
    *(Code.UPDATE_NAMESRV_CONFIG, Code.GET_NAMESRV_CONFIG, Code.QUERY_DATA_VERSION),
)
FIELDS = (
    *("namespace", "key", "value", "brokerName", "brokerAddr", "clusterName", "haServerAddr"),
    *("brokerId", "compressed", "bodyCrc32", "topic", "acceptStandardJsonOnly", "cluster"),
)
VALUES = (
    *(b"null", b'""', b'"x"', b"0", b"-1", b"true", b"1.5", b"1e400", b"[]", b"{}", b'[{"a":[]}]'),
    *(b'"true"', b'"0"', b"%d" % 2**63, b'"%d"' % 2**64, b'"\\u0000\\r\\n"', b'"../../x"'),
    *(b'"' + b"n" * 70_000 + b'"', b'"\\ud83d\\ude00"', '"\u202e"'.encode()),
)
BODIES = (
    *(b"", b"{}", b"[]", b"null", b"0", b'""', b"\0", b"\xff" * 9, b"{" * 50, b"a=b", b"{1:2}"),
    *(b'{"topicConfigSerializeWrapper":null}', b'{"filterServerList":[1]}', b'{"counter":"x"}'),
    *(zlib.compress(b""), zlib.compress(b"\xff" * 64), zlib.compress(bytes(1000)), b"listenPort=1"),
)
NOT_TEXT = {"brokerId", "compressed", "bodyCrc32", "acceptStandardJsonOnly"}
