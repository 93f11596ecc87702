"""A store written by one is opened, read and continued by the other, both ways.

What is to hold is in docs/disk.md, section 4.
"""

import asyncio
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from compat import swap
from compat.swap import Seen
from peers import ports
from peers.admin import AdminShell
from peers.driver import run_java

pytestmark = [pytest.mark.apache, pytest.mark.timeout(600)]

COUNT = int(os.environ.get("COMETMQ_SWAP_MESSAGES", "5000"))  # in each of three rounds
LOOK_EVERY = 50  # how many of them Apache's client looks for by key and by id as well


@pytest.fixture
def cluster(apache_namesrv, apache_broker, tmp_path):
    """Starts Apache's broker on a folder, with the topic made; its port is known before."""
    namesrv = apache_namesrv()
    port = ports.free_broker_port()

    def start():
        broker = apache_broker(
            folder=tmp_path, namesrv=namesrv.address, port=port,
            conf={"mappedFileSizeCommitLog": swap.FILE_SIZE, "flushDiskType": "ASYNC_FLUSH"},
        )  # fmt: skip
        with AdminShell(namesrv.address) as admin:
            admin.run(
                "updateTopic", "-b", broker.address, "-t", swap.TOPIC,
                "-r", str(swap.QUEUES), "-w", str(swap.QUEUES),
            )  # fmt: skip
        return broker

    start.namesrv = namesrv.address
    start.port = port
    return start


def fill(cluster, first: int) -> None:
    """By Apache's client, and by hand what that cannot send."""
    (told,) = run_java("Fill", cluster.namesrv, swap.TOPIC, first, COUNT, timeout=240)
    assert told["sent"] + swap.send_over_ipv6(cluster.port, first, COUNT) == COUNT


def dumped(cluster) -> dict[str, Seen]:
    """All that Apache's client reads from Apache's broker, some also by key and by id."""
    topics = swap.TOPIC, swap.SCHEDULE
    lines = run_java("Dump", cluster.namesrv, LOOK_EVERY, *topics, timeout=240)
    assert lines.pop() == {"done": True}
    assert len({line["keys"] for line in lines}) == len(lines), "none is there twice"
    lost = [line["keys"] for line in lines if False in (line["byKey"], line["byId"])]
    assert not lost, "by key or by id"
    assert sum(line["byId"] is True for line in lines) == -(-len(lines) // LOOK_EVERY)
    return {
        line["keys"]: Seen(
            line["topic"], line["queue"], line["offset"], line["at"], line["crc"], line["tags"],
            line["colour"], swap.ip(line["bornHost"]), line["id"],
        )
        for line in lines
    }  # fmt: skip


def check_complete(seen: dict[str, Seen], count: int) -> None:
    assert seen.keys() == {swap.keys_of(i) for i in range(count)}
    for i in range(count):
        one, properties = seen[swap.keys_of(i)], swap.properties_of(i)
        assert one.crc == zlib.crc32(swap.body_of(i))
        assert one.tags == properties.get("TAGS")
        assert one.colour == properties.get("colour")
        assert (one.topic == swap.SCHEDULE) == swap.is_delayed(i)
    for topic, queue in swap.PLACES:
        offsets = sorted(
            one.offset for one in seen.values() if (one.topic, one.queue) == (topic, queue)
        )
        assert offsets == list(range(len(offsets))), "no gap and nothing twice"
    assert {":" in one.born_host for one in seen.values()} == {True, False}


def look(cluster, folder: Path, count: int) -> dict[str, Seen]:
    """What ours finds, by queue, key and id; closed cleanly."""

    async def story() -> dict[str, Seen]:
        async with swap.open_store(folder, cluster.port) as store:
            seen = swap.read_all(store)
            swap.find_each(store, seen)
            assert store.recovered.bad == ()
            return seen

    seen = asyncio.run(story())
    check_complete(seen, count)
    return seen


def append(cluster, folder: Path, first: int, kill: bool) -> dict[str, Seen]:
    """By ours, in a process of its own if that is to be killed."""
    if kill:
        return append_and_die(cluster, folder, first)

    async def story() -> dict[str, Seen]:
        async with swap.open_store(folder, cluster.port) as store:
            swap.append(store, first, COUNT)
            return swap.read_all(store)

    return asyncio.run(story())


def append_and_die(cluster, folder: Path, first: int) -> dict[str, Seen]:
    arguments = map(str, (folder, cluster.port, first, COUNT))
    command = [sys.executable, swap.__file__, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        told = process.stdout.readline()
        process.kill()
    return {keys: Seen(**one) for keys, one in json.loads(told).items()}


@pytest.mark.parametrize("kill", [False, True], ids=["clean", "killed"])
def test_apache_then_ours_then_apache(cluster, tmp_path, kill):
    broker = cluster()
    fill(cluster, 0)
    (broker.kill if kill else broker.stop)()
    before = look(cluster, tmp_path, COUNT)
    seen = append(cluster, tmp_path, COUNT, kill)
    check_complete(seen, 2 * COUNT)
    assert before.items() <= seen.items()
    cluster()
    assert dumped(cluster) == seen


@pytest.mark.parametrize("kill", [False, True], ids=["clean", "killed"])
def test_ours_then_apache_then_ours(cluster, tmp_path, kill):
    seen = append(cluster, tmp_path, 0, kill)
    check_complete(seen, COUNT)
    broker = cluster()
    assert dumped(cluster) == seen
    fill(cluster, COUNT)
    (broker.kill if kill else broker.stop)()
    assert look(cluster, tmp_path, 2 * COUNT).items() >= seen.items()
