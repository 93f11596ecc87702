"""Sends of one read, answered jointly or one by one: the same answers, the same broker after."""

import asyncio
from random import Random

import msgspec
import pytest

from broker.whole import open_whole, send_header
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.frame import FrameDecoder, encode_frame
from cometmq.protocol.headers.base import write_header
from cometmq.protocol.records.message import LOCAL_HOST
from cometmq.remoting.channel import Channel
from cometmq.remoting.dispatch import Dispatcher
from cometmq.testing.clock import ManualClock
from remoting.rig import until

PREPARED = int(MessageFlag.PREPARED)
SYNC = {"flush_disk_type": "SYNC_FLUSH"}
USUAL = "KEYS\x01k{n}\x02UNIQ_KEY\x017F00000100002A139A551234{n:08X}\x02WAIT\x01true\x02TAGS\x01a"


class Wire:
    """A transport that keeps what is written."""

    def __init__(self):
        self.written = b""

    def get_extra_info(self, name):
        return "127.0.0.1", 7

    def write(self, data):
        self.written += data

    def get_write_buffer_size(self):
        return 0

    def is_closing(self):
        return False

    def set_write_buffer_limits(self, high):
        """Nothing is ever unsent."""

    def pause_reading(self):
        """Nothing is read."""

    resume_reading = abort = close = pause_reading


def frame(number, code=RequestCode.SEND_MESSAGE_V2, flag=0, body=b"x", **changes):
    fields = write_header(send_header(**changes))
    return encode_frame(
        Command(code=code, opaque=number, flag=flag, language="JAVA", fields=fields, body=body)
    )


def usual(number, chance):
    return frame(
        number,
        body=b"b" * chance.randrange(50),
        queue_id=chance.randrange(2),
        properties=USUAL.format(n=number),
        topic=chance.choice(("T", "U")),
    )


def odd(number, chance):
    """What `send_jointly` leaves to `send`, and what both refuse."""
    changes = chance.choice(
        (
            {"topic": "unknown"},
            {"topic": "new", "default_topic": "nothing"},
            {"topic": "a b"},
            {"topic": "SCHEDULE_TOPIC_XXXX"},
            {"topic": "%RETRY%G", "reconsume_times": 1},
            {"queue_id": 99},
            {"properties": "DELAY\x012"},
            {"properties": "WAIT\x01false"},
            {"properties": "WAIT\x01true\x02CLUSTER\x01other"},
            {"properties": "TRAN_MSG\x01true\x02PGROUP\x01P", "sys_flag": PREPARED},
            {"properties": "x" * 40_000},
            {"body": b"x" * 3000},
            {"flag": 1, "body": b""},
        )
    )
    return frame(number, **changes)


async def served(reads, store_settings):
    """What is answered to reads, and what the broker is afterwards."""
    clock = ManualClock()
    settings = {"max_message_size": 2000} | store_settings
    async with open_whole(settings, clock=clock) as whole:
        for topic in ("T", "U"):
            whole.make_topic(topic)
        await whole.topics.file.save()
        dispatcher = Dispatcher(whole.routes, whole.lanes)
        channel, wire = Channel(whole.broker._server._endpoint, dispatcher), Wire()
        channel.connection_made(wire)
        for read in reads:
            channel.data_received(read)
            for _ in range(50):  # whoever waits for a disk or a table has what it waits for
                await asyncio.sleep(0.001 if whole.lanes.in_flight("send") else 0)
            await until(lambda: not whole.lanes.in_flight("send"), "an end of the sends")
            await asyncio.sleep(0)
        await whole.store.flush()
        state = whole.state()
        files = state.pop("files")
        state["index"] = {path: data for path, data in files.items() if "/index/" in path}
        state["stored"] = list(stored_in(whole))
        counted = {
            name: (item.count, item.size, item.times)
            for name in ("T", "U")
            for item in whole.stats.puts.find(name)
        }
        took = whole.stats.took.distribution()
        channel.connection_lost(None)
        return answers_in(wire.written), state, counted, took


def stored_in(whole):
    """All that queues hold, and what it points to, but for the port of the broker."""
    for topic in whole.topics.names():
        for queue_id in range(2):
            for unit in whole.store.units(topic, queue_id, 0, 1000):
                record = whole.store.record(unit.physical_offset)
                yield unit, msgspec.structs.replace(record, store_host=LOCAL_HOST)


def answers_in(written):
    """By opaque: the order among those that wait is theirs. Ids without the port of the broker."""
    answers = {}
    for answer in FrameDecoder().feed(written):
        assert answer.opaque not in answers
        fields = answer.ext_fields
        if "msgId" in fields:
            fields["msgId"] = fields["msgId"][16:]
        answers[answer.opaque] = answer.code, answer.remark, fields
    return answers


def same_in_parts_and_whole(frames, store_settings):
    whole = asyncio.run(served([b"".join(frames)], store_settings))
    parts = asyncio.run(served(frames, store_settings))
    for one, other in zip(whole, parts, strict=True):
        assert one == other
    return whole


@pytest.mark.parametrize("store_settings", [{}, SYNC], ids=["async", "sync"])
def test_usual_sends(store_settings):
    chance = Random(1)
    frames = [usual(number, chance) for number in range(80)]
    answers, state, _, took = same_in_parts_and_whole(frames, store_settings)
    assert list(answers) == list(range(80))
    assert {code for code, _, _ in answers.values()} == {0}
    assert len(state["stored"]) == 80
    assert state["index"]
    assert took.startswith("[<=0ms]:80 ")


@pytest.mark.parametrize("seed", range(12))
def test_unusual_ones_among_them(seed):
    chance = Random(seed)
    frames = [(odd if chance.random() < 0.15 else usual)(number, chance) for number in range(60)]
    same_in_parts_and_whole(frames, {})


@pytest.mark.parametrize("count", [1, 2, 40])
def test_late_ones_are_refused_each(count):
    async def story():
        clock = ManualClock()
        async with open_whole({}, clock=clock) as whole:
            whole.make_topic("T")
            await whole.topics.file.save()
            dispatcher = Dispatcher(whole.routes, whole.lanes)
            channel, wire = Channel(whole.broker._server._endpoint, dispatcher), Wire()
            channel.connection_made(wire)
            wall_ms = clock.wall_ms
            times = iter([wall_ms() - 500])
            clock.wall_ms = lambda: next(times, wall_ms())
            channel.data_received(b"".join(frame(n) for n in range(count)))
            assert wire.written.count(b'"code":%d,' % ResponseCode.SYSTEM_BUSY) == count
            assert whole.store.bounds("T", 0) == (0, 0)
            channel.connection_lost(None)

    asyncio.run(story())


def test_joint_sends_are_joint(monkeypatch):
    """Or the tests above would compare a thing with itself."""
    asked = []

    async def story():
        async with open_whole({}) as whole:
            whole.make_topic("T")
            await whole.topics.file.save()
            put = whole.store.put_all

            def watched(messages, now_ms, **options):
                asked.append(len(messages))
                return put(messages, now_ms, **options)

            monkeypatch.setattr(whole.store, "put_all", watched)
            dispatcher = Dispatcher(whole.routes, whole.lanes)
            channel, wire = Channel(whole.broker._server._endpoint, dispatcher), Wire()
            channel.connection_made(wire)
            channel.data_received(frame(0))
            channel.data_received(b"".join(frame(n) for n in range(1, 6)))
            assert whole.store.bounds("T", 0) == (0, 6)
            channel.connection_lost(None)

    asyncio.run(story())
    assert asked == [5]
