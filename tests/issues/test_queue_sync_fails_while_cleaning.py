"""A broker whose queue files cannot be synced deleted log files all the same; after two kills it
did not start, or answered every request on a queue with "No such file or directory".

The broker is a process as a user runs it. Only its fdatasync of queue files fails, and only while a
file says so.
"""

import asyncio
import sys
import time

import pytest

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.flags import PullFlag
from cometmq.protocol.headers.base import read_header
from cometmq.protocol.headers.offset import OffsetReplyHeader, QueueHeader
from cometmq.protocol.headers.pull import PullHeader, PullReplyHeader
from cometmq.protocol.records.message import unpack_records
from peers import comet
from peers.raw import GROUP, RawClient

COUNT = 120
WAIT_S_MAX = 60
CONF = {
    "mappedFileSizeCommitLog": 16 << 10,
    "mappedFileSizeConsumeQueue": 20 * 10,
    "fileReservedTime": 0,
    "deleteWhen": ";".join(map(str, range(24))),
    "cleanResourceInterval": 200,
    "flushIntervalConsumeQueue": 50,
}
FAILING = """#!{python}
import errno, os, sys
real = os.fdatasync
def fdatasync(descriptor):
    path = os.readlink(f"/proc/self/fd/{{descriptor}}")
    if "/consumequeue/" in path and os.path.exists({flag!r}):
        raise OSError(errno.EIO, "Input/output error")
    real(descriptor)
os.fdatasync = fdatasync
from cometmq.cli import main
sys.exit(main())
"""

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def broker(tmp_path, monkeypatch):
    """With `sync_fails`, the file that makes syncs of queue files fail."""
    script = tmp_path / "cometmq"
    flag = tmp_path / "sync-fails"
    script.write_text(FAILING.format(python=sys.executable, flag=str(flag)))
    script.chmod(0o755)
    monkeypatch.setattr(comet, "COMMAND", script)
    broker = comet.CometBroker(tmp_path / "broker", namesrv="", conf=CONF)
    broker.sync_fails = flag
    yield broker
    broker.kill()


async def send(broker, count):
    async with RawClient(broker.address) as client:
        return [(await client.send("T", 0, b"%d" % i + b" " * 400)).offset for i in range(count)]


async def read(broker):
    """First offset, and all messages from there on."""
    async with RawClient(broker.address) as client:
        queue = QueueHeader(topic="T", queue_id=0)
        answer = await client.ask(RequestCode.GET_MIN_OFFSET, queue)
        first = offset = read_header(answer, OffsetReplyHeader).offset
        found, end = [], await client.max_offset("T", 0)
        while offset < end:
            header = PullHeader(
                consumer_group=GROUP, topic="T", queue_id=0, queue_offset=offset, max_msg_nums=32,
                sys_flag=int(PullFlag.SUBSCRIPTION), commit_offset=0, suspend_timeout_millis=0,
                subscription="*", sub_version=0, expression_type="TAG",
            )  # fmt: skip
            answer = await client.ask(RequestCode.PULL_MESSAGE, header)
            found += unpack_records(answer.body)
            offset = read_header(answer, PullReplyHeader).next_begin_offset
        return first, found


def until(condition):
    deadline = time.monotonic() + WAIT_S_MAX
    while not condition():
        assert time.monotonic() < deadline, "in vain"
        time.sleep(0.05)


def test_two_kills_after_cleaning_with_failing_queue_files_cost_nothing(broker):
    folder = broker.folder / "store"
    broker.start()
    asyncio.run(send(broker, 5))
    queue = folder / "consumequeue" / "T" / "0" / f"{0:020}"
    until(lambda: queue.exists() and queue.read_bytes()[80:100].strip(b"\0"))
    broker.sync_fails.touch()
    assert asyncio.run(send(broker, COUNT))[-1] == COUNT + 4
    first_log = folder / "commitlog" / f"{0:020}"
    until(lambda: "is due to be deleted but stays" in broker.log or not first_log.exists())
    time.sleep(1)  # five more rounds of cleaning
    broker.kill()
    broker.sync_fails.unlink()
    broker.conf["fileReservedTime"] = 72
    for _ in range(3):
        broker.start()
        first, found = asyncio.run(read(broker))
        assert [one.queue_offset for one in found] == list(range(first, COUNT + 5))
        broker.kill()
    assert first == 0, "nothing was deleted"
    assert f"{first_log} is due to be deleted but stays" in broker.log
    assert f"Input/output error: '{queue.parent}" in broker.log, "the file is named"


def test_cleaning_goes_on_when_queue_files_can_be_synced_again(broker):
    broker.start()
    broker.sync_fails.touch()
    asyncio.run(send(broker, COUNT))
    until(lambda: "is due to be deleted but stays" in broker.log)
    broker.sync_fails.unlink()
    first_log = broker.folder / "store" / "commitlog" / f"{0:020}"
    until(lambda: not first_log.exists())
    broker.kill()
    broker.conf["fileReservedTime"] = 72
    for _ in range(2):
        broker.start()
        first, found = asyncio.run(read(broker))
        assert 0 < first < COUNT
        assert [one.queue_offset for one in found] == list(range(first, COUNT))
        broker.kill()
