"""Offsets of groups and of broadcasting readers."""

import asyncio
from concurrent.futures import Future

import pytest

from client.consumer.fake_broker import FakeBroker
from cometmq.client.config import LitePullConsumerConfig, PullConsumerConfig
from cometmq.client.consumer.lite.lite_pull import LitePullConsumer
from cometmq.client.consumer.lite.pull import PullConsumer
from cometmq.client.consumer.shared.offset_file import OffsetFile
from cometmq.client.consumer.shared.offsets import BrokerOffsets, LocalOffsets, offsets_for
from cometmq.disk import RealDisk
from cometmq.errors import Refused, WorldError
from cometmq.protocol.bodies.heartbeat import MessageModel
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import RequestCode, ResponseCode

QUEUE = MessageQueue("orders", "broker-a", 0)
OTHER = MessageQueue("orders", "broker-a", 1)


def on_broker(scene):
    async def main():
        broker = FakeBroker(orders=2)
        await scene(broker, BrokerOffsets(broker.session(), "g"))

    asyncio.run(main())


def test_a_group_goes_on_where_it_was():
    async def scene(broker, offsets):
        assert await offsets.kept(QUEUE) is None
        offsets.advance(QUEUE, 5)
        assert (offsets.known(QUEUE), await offsets.kept(QUEUE)) == (5, None)
        await offsets.keep([QUEUE, OTHER])
        assert (await offsets.kept(QUEUE), await offsets.kept(OTHER)) == (5, None)

    on_broker(scene)


def test_only_what_changed_is_told():
    async def scene(broker, offsets):
        offsets.advance(QUEUE, 5)
        await offsets.keep([QUEUE])
        await offsets.keep([QUEUE])
        assert broker.count(RequestCode.UPDATE_CONSUMER_OFFSET) == 1
        offsets.advance(QUEUE, 4, only_up=True)
        assert offsets.known(QUEUE) == 5
        offsets.advance(QUEUE, 4)
        await offsets.keep([QUEUE])
        assert await offsets.kept(QUEUE) == 4

    on_broker(scene)


def test_of_offsets_told_together_one_goes_alone_first():
    """Apache's broker loses one of two that come at once from a group that it does not know; one
    that is killed may not know a group any more.
    """

    async def main():
        broker = FakeBroker(orders=4)
        session = broker.session()
        under_way, seen = 0, []

        async def invoke(address, code, *rest, **more):
            nonlocal under_way
            if code == RequestCode.UPDATE_CONSUMER_OFFSET:
                under_way += 1
                seen.append(under_way)
                await asyncio.sleep(0)
                under_way -= 1
            return await broker.invoke(address, code, *rest, **more)

        session.pool.invoke = invoke
        offsets = BrokerOffsets(session, "g")
        queues = [MessageQueue("orders", "broker-a", n) for n in range(4)]
        for offset in (5, 6):
            seen.clear()
            for queue in queues:
                offsets.advance(queue, offset)
            await asyncio.gather(*map(offsets.leave, queues))
            assert seen == [1, 1, 2, 3], "then the others together"
            assert [await offsets.kept(queue) for queue in queues] == [offset] * 4

    asyncio.run(main())


def test_what_a_broker_does_not_keep_is_told_again():
    async def scene(broker, offsets):
        offsets.advance(QUEUE, 5)
        await offsets.kept(QUEUE)
        broker.is_up = False
        await offsets.keep([QUEUE])
        broker.is_up = True
        await offsets.keep([QUEUE])
        assert await offsets.kept(QUEUE) == 5

    on_broker(scene)


def test_a_commit_that_fails_says_so():
    async def scene(broker, offsets):
        broker.refuses[RequestCode.UPDATE_CONSUMER_OFFSET] = ResponseCode.SYSTEM_ERROR
        with pytest.raises(Refused):
            await offsets.commit(QUEUE, 5)
        del broker.refuses[RequestCode.UPDATE_CONSUMER_OFFSET]
        await offsets.commit(QUEUE, 5)
        assert await offsets.kept(QUEUE) == 5

    on_broker(scene)


def test_a_broker_that_moved_is_told_where_it_is_now():
    async def scene(broker, offsets):
        await offsets.kept(QUEUE)
        broker.nodes = {0: "127.0.0.1:20911"}
        await offsets.commit(QUEUE, 5)
        assert await offsets.kept(QUEUE) == 5

    on_broker(scene)


def test_a_slave_is_told_and_asked_while_there_is_no_master():
    async def scene(broker, offsets):
        await offsets.commit(QUEUE, 5)
        broker.nodes = {1: "127.0.0.1:20911"}
        await offsets.commit(QUEUE, 6)
        assert await offsets.kept(QUEUE) == 6
        broker.nodes = {}
        with pytest.raises(WorldError, match="broker broker-a has no known master"):
            await offsets.commit(QUEUE, 7)

    on_broker(scene)


def test_what_a_broker_lost_is_told_again_after_a_while():
    async def scene(broker, offsets):
        offsets.advance(QUEUE, 100)
        await offsets.keep([QUEUE])
        broker.committed["g", QUEUE] = 90  # it was killed, and came back
        await broker.clock.advance(29_999)
        await offsets.keep([QUEUE])
        assert await offsets.kept(QUEUE) == 90
        await broker.clock.advance(1)
        await offsets.keep([QUEUE])
        assert await offsets.kept(QUEUE) == 100

    on_broker(scene)


def test_what_is_forgotten_is_not_kept():
    async def scene(broker, offsets):
        offsets.advance(QUEUE, 5)
        offsets.forget(QUEUE)
        await offsets.keep([QUEUE])
        assert (await offsets.kept(QUEUE), offsets.known(QUEUE)) == (None, None)

    on_broker(scene)


def test_what_is_left_is_kept_and_forgotten():
    async def scene(broker, offsets):
        offsets.advance(QUEUE, 5)
        await offsets.leave(QUEUE)
        assert (await offsets.kept(QUEUE), offsets.known(QUEUE)) == (5, None)

    on_broker(scene)


def test_a_question_that_is_refused_is_no_new_group():
    async def scene(broker, offsets):
        broker.refuses[RequestCode.QUERY_CONSUMER_OFFSET] = ResponseCode.SYSTEM_ERROR
        with pytest.raises(Refused):
            await offsets.kept(QUEUE)

    on_broker(scene)


class FailingDisk(RealDisk):
    """Whose writes fail while a test says so."""

    is_full = False

    def replace(self, path, content):
        if self.is_full:
            raise OSError(28, "no space")
        super().replace(path, content)

    def begin(self, work):
        done = Future()
        try:
            done.set_result(work())
        except OSError as error:
            done.set_exception(error)
        return done


def test_a_broadcasting_reader_has_a_file(tmp_path):
    async def main():
        disk = FailingDisk()
        offsets = LocalOffsets(OffsetFile(disk, tmp_path / "offsets.json"), disk)
        await offsets.load()
        assert await offsets.kept(QUEUE) is None
        offsets.advance(QUEUE, 5)
        await offsets.keep([QUEUE])
        disk.is_full = True
        offsets.advance(QUEUE, 6)
        await offsets.keep([QUEUE])
        with pytest.raises(WorldError, match="no space"):
            await offsets.commit(QUEUE, 7)
        again = LocalOffsets(OffsetFile(disk, tmp_path / "offsets.json"), disk)
        await again.load()
        assert await again.kept(QUEUE) == 5
        disk.is_full = False
        await offsets.commit(QUEUE, 8)
        await again.load()
        assert again.known(QUEUE) == 8

    asyncio.run(main())


def test_the_model_says_where_they_are_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))

    async def main():
        session = FakeBroker().session()
        shared = offsets_for(session, "g", MessageModel.CLUSTERING, None)
        assert isinstance(shared, BrokerOffsets)
        own = offsets_for(session, "g", MessageModel.BROADCASTING, None)
        own.advance(QUEUE, 3)
        await own.leave(QUEUE)
        files = list(tmp_path.rglob("offsets.json"))
        assert [str(file.relative_to(tmp_path)) for file in files] == [
            ".rocketmq_offsets/127.0.0.1@one/g/offsets.json"
        ]

    asyncio.run(main())


@pytest.mark.parametrize(
    ("kind", "config"),
    [(LitePullConsumer, LitePullConsumerConfig), (PullConsumer, PullConsumerConfig)],
)
def test_consumers_that_pull_keep_them_in_the_folder_they_are_told(kind, config, tmp_path):
    settings = {"group": "g", "message_model": MessageModel.BROADCASTING, "offset_folder": tmp_path}

    async def main():
        broker = FakeBroker(orders=1)
        async with broker.session() as session, kind(config(**settings), session=session) as one:
            if kind is PullConsumer:
                await one.commit(QUEUE, 3)
            else:
                one.assign([QUEUE])
                await one.commit({QUEUE: 3})
            (file,) = tmp_path.rglob("offsets.json")
            assert str(file.relative_to(tmp_path)) == "127.0.0.1@one/g/offsets.json"

    asyncio.run(main())
