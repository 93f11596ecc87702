"""Settings of the store that UPDATE_BROKER_CONFIG changes while it is open."""

import asyncio

from broker.whole import FOLDER, at_broker
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.remoting.dispatch import Reply
from cometmq.store.config import FlushDiskType, StoreConfig
from crash.shadow_disk import ShadowDisk

HOUR_MS = 3_600_000
FLUSH_OFTEN = {"flush_interval_commit_log": 1_000, "flush_commit_log_least_pages": 0}
CLEAN_OFTEN = {"clean_resource_interval": 1_000, "mapped_file_size_commit_log": 4096}


class FillingDisk(ShadowDisk):
    """As full as the test says."""

    ratio = 0.5

    def used_ratio(self, folder):
        return self.ratio


async def change(whole, **settings):
    text = "\n".join(f"{key}={value}" for key, value in settings.items())
    reply = await whole.ask(RequestCode.UPDATE_BROKER_CONFIG, body=text.encode())
    assert reply.code == 0, reply.remark


def let_go(disk):
    """Do what was held, and hold no more."""
    disk.release()
    disk._held = None


async def fill_files(whole, count):
    """So many files of the log that are full, and one that is in use."""
    whole.disk.wall_ms = whole.clock.wall_ms
    while len(whole.disk.names(FOLDER / "commitlog")) <= count:
        assert (await whole.send(body=bytes(1000))).code == 0
    await whole.store.flush()


def test_the_limit_of_bodies():
    async def story(whole):
        assert (await whole.send(body=bytes(3000))).code == 0
        await change(whole, maxMessageSize=2000)
        reply = await whole.send(body=bytes(3000))  # a shape that it knows
        assert reply.code == ResponseCode.MESSAGE_ILLEGAL
        assert "2000" in reply.remark
        await change(whole, maxMessageSize=3000)
        assert (await whole.send(body=bytes(3000))).code == 0

    at_broker(story)


def test_from_now_on_a_send_waits_for_the_disk_and_from_then_on_not():
    async def story(whole):
        await whole.send()
        whole.disk.hold()
        assert isinstance(whole.begin_send(), Reply)
        let_go(whole.disk)
        await change(whole, flushDiskType="SYNC_FLUSH")
        whole.disk.hold()
        waiting = asyncio.ensure_future(whole.send())
        await whole.clock.advance(100)
        assert not waiting.done()
        let_go(whole.disk)
        assert (await waiting).code == 0

        whole.disk.hold()
        waiting = asyncio.ensure_future(whole.send())
        await whole.clock.advance(0)
        changed = asyncio.ensure_future(change(whole, flushDiskType="ASYNC_FLUSH"))
        await whole.clock.advance(0)
        let_go(whole.disk)
        await changed
        assert (await waiting).code == 0, "who waited before is told still"
        whole.disk.hold()
        assert isinstance(whole.begin_send(), Reply)

    at_broker(story)


def test_how_long_a_send_waits_for_the_disk():
    async def story(whole):
        await whole.send()
        await change(whole, syncFlushTimeout=300)
        whole.disk.hold()
        waiting = asyncio.ensure_future(whole.send())
        await whole.clock.advance(299)
        assert not waiting.done()
        await whole.clock.advance(1)
        assert (await waiting).code == ResponseCode.FLUSH_DISK_TIMEOUT

    at_broker(story, store_settings={"flush_disk_type": FlushDiskType.SYNC_FLUSH})


def test_how_often_the_log_is_flushed():
    async def story(whole):
        await change(whole, flushIntervalCommitLog=100)
        await whole.clock.advance(1_000)
        await whole.send()
        await whole.clock.advance(99)
        assert whole.store.flushed_end < whole.store.log_bounds[1]
        await whole.clock.advance(1)
        assert whole.store.flushed_end == whole.store.log_bounds[1]

    at_broker(story, store_settings=FLUSH_OFTEN)


def test_how_long_messages_are_kept():
    async def story(whole):
        await fill_files(whole, 3)
        whole.clock.jump(2 * HOUR_MS)
        assert whole.store.clean() == 0
        await change(whole, fileReservedTime=1)
        assert whole.store.clean() == 3

    at_broker(story, store_settings={"mapped_file_size_commit_log": 4096})


def test_when_old_files_go():
    hours = set(range(24))

    async def story(whole):
        await fill_files(whole, 3)
        await change(whole, deleteWhen="", fileReservedTime=0)
        await whole.clock.advance(HOUR_MS)
        assert whole.store.log_bounds[0] == 0
        await change(whole, deleteWhen=";".join(map(str, sorted(hours))))
        await whole.clock.advance(1_000)
        assert whole.store.log_bounds[0] == 3 * 4096

    at_broker(story, store_settings=CLEAN_OFTEN)


def test_what_a_full_disk_calls_for():
    async def story(whole):
        await fill_files(whole, 3)
        await change(whole, deleteWhen="", fileReservedTime=0, diskMaxUsedSpaceRatio=60)
        await whole.clock.advance(1_000)
        assert whole.store.log_bounds[0] == 0
        await change(whole, diskMaxUsedSpaceRatio=40)
        await whole.clock.advance(1_000)
        assert whole.store.log_bounds[0] == 3 * 4096

        await whole.store.flush()  # which deletes them
        await fill_files(whole, 3)
        await change(whole, fileReservedTime=72, cleanFileForciblyEnable="false")
        whole.disk.ratio = 0.88
        await whole.clock.advance(1_000)
        assert whole.store.log_bounds[0] == 3 * 4096
        await change(whole, cleanFileForciblyEnable="true")
        await whole.clock.advance(1_000)
        assert whole.store.log_bounds[0] > 3 * 4096

    at_broker(story, store_settings=CLEAN_OFTEN, disk=FillingDisk())


def test_a_change_is_kept_and_nothing_asked_for_writes_nothing():
    async def story(whole):
        path = FOLDER / "broker.properties"
        await change(whole)
        assert path.name not in whole.disk.names(FOLDER)
        assert whole.settings.changes == 0
        await change(whole, fileReservedTime=48)
        assert b"fileReservedTime=48" in whole.disk.read(path)
        assert whole.settings.now(StoreConfig).file_reserved_time == 48

    at_broker(story)
