"""A store with a gap between queue files: whoever wrote it, ours opens it, and Apache's can after.

What is to hold is in docs/disk.md, section 2.
"""

import asyncio

import pytest

from peers import ports
from peers.comet import CometBroker
from peers.raw import RawClient

pytestmark = [pytest.mark.apache, pytest.mark.timeout(300)]

COUNT = 90
CONF = {"mappedFileSizeCommitLog": 1 << 20, "mappedFileSizeConsumeQueue": 20 * 20}


async def send(broker, first):
    async with RawClient(broker.address) as client:
        await client.make_topic("Gap", 1)
        for i in range(first, first + COUNT):
            assert (await client.send("Gap", 0, b"%d" % i)).offset == i
        await client.until_end("Gap", 0, first + COUNT)


async def read(broker, count):
    """After a kill Apache's broker fills its queues again a moment after it answers."""
    async with RawClient(broker.address) as client:
        await client.until_end("Gap", 0, count)
        return [int(one.body) for one in await client.read("Gap", 0)]


def files_of(folder):
    return sorted((folder / "store" / "consumequeue" / "Gap" / "0").iterdir())


def remove_one(folder):
    """In the middle."""
    files_of(folder)[2].unlink()


@pytest.mark.parametrize("kill", [False, True], ids=["closed", "killed"])
def test_a_gapped_queue_is_served_by_both(tmp_path, apache_namesrv, apache_broker, kill):
    namesrv = apache_namesrv().address
    port = ports.free_broker_port()
    ours = CometBroker(tmp_path, namesrv=namesrv, conf=CONF, port=port)

    def apache():
        return apache_broker(folder=tmp_path, namesrv=namesrv, port=port, conf=CONF)

    count = 0
    with ours:
        asyncio.run(send(ours, 0))
        count += COUNT
    remove_one(tmp_path)
    for _ in range(2):
        ours.start()
        assert asyncio.run(read(ours, count)) == list(range(count))
        (ours.kill if kill else ours.stop)()
        assert (tmp_path / "store" / "set_aside" / "consumequeue" / "Gap" / "0").is_dir()
        theirs = apache()
        assert asyncio.run(read(theirs, count)) == list(range(count))
        asyncio.run(send(theirs, count))
        count += COUNT
        theirs.stop()
        remove_one(tmp_path)
    with ours:
        assert asyncio.run(read(ours, count)) == list(range(count))
        sizes = {path.stat().st_size for path in files_of(tmp_path)}
        assert sizes == {CONF["mappedFileSizeConsumeQueue"]}
