"""Writes tests/golden/*.json again from Apache's own classes: python -m peers.record_golden.

Run from the tests folder. With "captures" as argument only the captured traffic is recorded anew,
with "classes" only what the classes write, with "filters" or "clients" only what those say, with
"tables" only what a broker keeps in its config folder.
"""

import asyncio
import datetime
import json
import re
import struct
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from peers import clients, ports, tables
from peers.apache import ApacheBroker, ApacheNamesrv, mqadmin
from peers.capture import Captured, Proxy, Recorder, read_header
from peers.driver import run_java, start_java
from peers.filters import golden_entries
from peers.jars import VERSION, java_version

GOLDEN = Path(__file__).parent.parent / "golden"
_PARTS = ("classes", "filters", "clients", "captures", "tables")
_REGISTER_MS = 10_000  # the shortest period a broker accepts
_PULL_WAIT_S = 15  # an empty pull is answered after this time; registrations come in it too
_CAPTURE_SIZE_MAX = 64 << 10
_COMMANDS = (
    ("topicRoute", "-t", "TopicTest"),
    ("clusterList",),
    ("topicList",),
    ("topicStatus", "-t", "TopicTest"),
    ("consumerProgress", "-g", "group_a"),
    ("consumerConnection", "-g", "group_a"),
    ("consumerStatus", "-g", "group_a"),
    ("brokerConsumeStats", "-b", "{broker}"),
    ("queryMsgByKey", "-t", "TopicTest", "-k", "order-0"),
    ("queryCq", "-t", "TopicTest", "-q", "0", "-i", "0", "-b", "{broker}"),
    ("updateTopic", "-t", "Other", "-c", "DefaultCluster", "-r", "2", "-w", "2"),
    ("updateSubGroup", "-g", "group_b", "-c", "DefaultCluster"),
    ("updateKvConfig", "-s", "ns", "-k", "key", "-v", "value"),
    ("deleteKvConfig", "-s", "ns", "-k", "key"),
    ("updateOrderConf", "-m", "put", "-t", "Other", "-v", "broker-a:2"),
    ("updateOrderConf", "-m", "get", "-t", "Other"),
    ("wipeWritePerm", "-b", "broker-a"),
    ("addWritePerm", "-b", "broker-a"),
    ("resetOffsetByTime", "-g", "group_a", "-t", "TopicTest", "-s", "1"),
    ("deleteTopic", "-t", "Other", "-c", "DefaultCluster"),
)


def record_classes() -> None:
    """What RemotingCommand, MessageDecoder and the others write, by the Golden driver."""
    with tempfile.TemporaryDirectory(prefix="golden-") as folder:
        run_java("Golden", folder, timeout=120)
        for path in sorted(Path(folder).glob("*.json")):
            write_golden(path.name, json.loads(path.read_bytes()))


def write_golden(name: str, entries: list[Any]) -> None:
    """Write one golden file: entries on lines of their own, so that a change is seen in a diff."""
    names = [entry["name"] for entry in entries]
    assert len(names) == len(set(names)), f"{name} has an entry name twice"
    today = datetime.datetime.now(datetime.UTC).date()
    made_by = f"Apache RocketMQ {VERSION} (Maven jars) on Java {java_version()}, {today}"
    lines = ",\n".join(json.dumps(entry) for entry in entries)
    text = f'{{"made_by": {json.dumps(made_by)},\n"entries": [\n{lines}\n]}}\n'
    (GOLDEN / name).write_text(text, encoding="ascii")


async def capture(folder: Path) -> list[Captured]:
    """Apache's servers, clients and tools at work with one another, seen by two proxies."""
    recorder = Recorder(client="broker")
    namesrv = ApacheNamesrv(folder / "namesrv")
    seen_namesrv, seen_broker = ports.free_port(), ports.free_port()
    # Relative paths: some answers name the folders of the store.
    store = {
        "storePathRootDir": "store",
        "storePathCommitLog": "store/commitlog",
        "registerNameServerPeriod": _REGISTER_MS,
        "forceRegister": "false",
    }
    broker = ApacheBroker(folder / "broker", namesrv=f"127.0.0.1:{seen_namesrv}", conf=store)
    alias = {broker.address.encode(): f"127.0.0.1:{seen_broker}".encode()}
    with namesrv:
        async with (
            Proxy(recorder, "namesrv", namesrv.port, seen_namesrv, alias) as names,
            Proxy(recorder, "broker", broker.port, seen_broker) as front,
        ):
            await asyncio.to_thread(broker.start)
            try:
                await asyncio.to_thread(drive, recorder, names.address, front.address)
            finally:
                # In good order, so that the broker takes its leave of the name server.
                await asyncio.to_thread(broker.stop)
    return recorder.frames


def drive(recorder: Recorder, names: str, broker: str) -> None:
    """A producer, a consumer, and the admin tool while the consumer is there."""
    recorder.client = "producer"
    # The pause between the two sends leaves room for a heartbeat.
    run_java(
        "Produce",
        names,
        "TopicTest",
        "producer_a",
        2,
        "hello",
        "tag=red",
        "key=order",
        "delay=1500",
        "ip=10.0.0.5",
    )
    recorder.client = "consumer"
    with start_java("Consume", names, "TopicTest", "group_a", 0, "ip=10.0.0.5") as consumer:
        for _ in range(3):  # that it started, and two messages
            consumer.next()
        time.sleep(_PULL_WAIT_S + 2)
        recorder.client = "mqadmin"
        for command in _COMMANDS:
            mqadmin(*(word.format(broker=broker) for word in command), namesrv=names)


def record_captures() -> None:
    """One example of each kind of frame, in the order of first appearance."""
    with tempfile.TemporaryDirectory(prefix="capture-") as folder:
        frames = asyncio.run(capture(Path(folder)))
    entries: dict[str, Any] = {}
    for frame in frames:
        if len(frame.data) <= _CAPTURE_SIZE_MAX and frame.name not in entries:
            data = without_sentence(frame.data)
            value = {
                "from": frame.sender,
                "to": frame.receiver,
                "requestCode": frame.request_code,
                "header": read_header(data),
                "remarkCut": data != frame.data,
            }
            entries[frame.name] = {"name": frame.name, "hex": data.hex(), "value": value}
    write_golden("captures.json", list(entries.values()))


def without_sentence(frame: bytes) -> bytes:
    """The frame with "..." for a remark of several words: we keep no prose of Apache's."""
    header_size = int.from_bytes(frame[5:8], "big")
    header, body = frame[8 : 8 + header_size], frame[8 + header_size :]
    header = re.sub(rb'"remark":"(?:[^"\\]|\\.)* (?:[^"\\]|\\.)*"', b'"remark":"..."', header)
    sizes = struct.pack(">ii", 4 + len(header) + len(body), frame[4] << 24 | len(header))
    return sizes + header + body


def main(parts: list[str]) -> None:
    """Record the parts asked for, by default all of them."""
    unknown = set(parts) - set(_PARTS)
    if unknown:
        raise SystemExit(f"unknown part {sorted(unknown)}; known: {_PARTS}")
    if not parts or "classes" in parts:
        record_classes()
    if not parts or "filters" in parts:
        write_golden("filters.json", golden_entries())
    if not parts or "clients" in parts:
        write_golden("clients.json", clients.golden_entries())
    if not parts or "captures" in parts:
        record_captures()
    if not parts or "tables" in parts:
        write_golden("tables.json", tables.kept_tables())


if __name__ == "__main__":
    main(sys.argv[1:])
