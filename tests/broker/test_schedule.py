"""Delayed messages come when they are due, in order, once, whatever happens meanwhile."""

import asyncio
from random import Random
from unittest.mock import DEFAULT, Mock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.works import FOLDER, PRODUCER, at_work, new
from cometmq.broker.config import BrokerConfig
from cometmq.errors import DiskFull
from cometmq.protocol.bodies.tables import DelayOffsetTable
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.java.fastjson import dumps, loads
from cometmq.protocol.java.values import hash_code
from cometmq.store.config import StoreConfig
from searches import examples
from store.rig import NOON_MS

FILE = FOLDER / "config/delayOffset.json"
SCHEDULE = "SCHEDULE_TOPIC_XXXX"


def delayed(works, level, body=b"hello", topic="T", queue_id=2, **properties):
    return works.put(topic, queue_id, body, DELAY=str(level), **properties)


def kept(works):
    """What the file says, by level."""
    return loads(works.disk.read(FILE), DelayOffsetTable).offset_table


def test_it_waits_its_time_and_keeps_what_it_is():
    async def story(works):
        message = new("T", 2, b"x", 3, TAGS="red", KEYS="k", DELAY="2", WAIT="true")
        message.sys_flag = MessageFlag.COMPRESSED
        works.intake.put(message, works.clock.wall_ms())
        await works.clock.advance(4_999)
        assert works.bodies("T", 2) == []
        await works.clock.advance(1)
        (came,) = works.stored("T", 2)
        assert (came.body, came.flag, came.sys_flag, came.reconsume_times) == (b"x", 5, 1, 3)
        assert (came.born_ms, came.born_host) == (NOON_MS, PRODUCER)
        assert came.stored_ms == NOON_MS + 5_000
        assert came.properties == {
            "TAGS": "red", "KEYS": "k", "DELAY": "2", "WAIT": "true",
            "REAL_TOPIC": "T", "REAL_QID": "2",
        }  # fmt: skip
        assert works.store.units("T", 2, 0, 1)[0].code == hash_code("red")

    at_work(story)


def test_it_is_not_a_part_of_a_millisecond_early():
    """The clocks' milliseconds begin at different moments: one may show a wait's end, one not."""

    async def story(works):
        delayed(works, 2)
        await works.clock.advance(1)
        works.clock.jump(-1)
        await works.clock.advance(4_999)
        assert works.bodies("T", 2) == []
        await works.clock.advance(1)
        assert works.stored("T", 2)[0].stored_ms == NOON_MS + 5_000

    at_work(story)


def test_levels_do_not_wait_for_each_other():
    async def story(works):
        for level in (4, 1, 3, 2, 1):
            delayed(works, level, str(level).encode())
        for ms, come in [(1_000, b"11"), (4_000, b"112"), (5_000, b"1123"), (20_000, b"11234")]:
            await works.clock.advance(ms)
            assert b"".join(works.bodies("T", 2)) == come

    at_work(story)


def test_one_that_comes_while_others_wait_has_its_own_time():
    async def story(works):
        delayed(works, 2, b"first")
        await works.clock.advance(3_000)
        delayed(works, 2, b"second")
        await works.clock.advance(2_000)
        assert works.bodies("T", 2) == [b"first"]
        await works.clock.advance(3_000)
        assert works.bodies("T", 2) == [b"first", b"second"]

    at_work(story)


def test_nothing_runs_while_nothing_is_delayed():
    async def story(works):
        await works.clock.advance(0)
        waiting = works.arrivals.count
        works.put("T")
        await works.clock.advance(3_600_000)
        assert works.arrivals.count == waiting
        assert works.schedule.body.offset_table == {}

    at_work(story)


def test_progress_is_kept_a_second_later():
    async def story(works):
        delayed(works, 1)
        await works.clock.advance(1_999)
        with pytest.raises(FileNotFoundError):
            works.disk.read(FILE)
        assert works.schedule.body.offset_table == {1: 1}
        assert works.schedule.progress == {1: (1, 1)}
        await works.clock.advance(1)
        assert kept(works) == {1: 1}

    at_work(story)


def test_what_was_due_meanwhile_goes_out_at_once_and_in_order():
    async def story(works):
        for number in range(100):
            delayed(works, 1 + number % 2, str(number).encode())
        delayed(works, 4, b"later")
        await works.reopen()
        works.clock.jump(10_000)  # the process was down so long
        await works.reopen()
        await works.clock.advance(0)
        bodies = [int(body) for body in works.bodies("T", 2)]
        assert sorted(bodies) == list(range(100))
        for level in (0, 1):
            assert [n for n in bodies if n % 2 == level] == list(range(level, 100, 2))
        await works.clock.advance(20_000)
        assert works.bodies("T", 2)[100:] == [b"later"]

    at_work(story)


def test_a_killed_broker_delivers_nothing_twice():
    async def story(works):
        for number in range(5):
            delayed(works, 1, str(number).encode(), UNIQ_KEY=f"U{number}")
            await works.clock.advance(100)
        await works.clock.advance(750)
        assert len(works.bodies("T", 2)) == 3  # two wait, and no file says how far it is
        await works.kill()
        assert works.schedule.body.offset_table == {1: 3}
        await works.clock.advance(2_000)
        assert works.bodies("T", 2) == [b"0", b"1", b"2", b"3", b"4"]

    at_work(story)


def test_the_same_message_sent_twice_comes_twice_also_after_a_kill():
    async def story(works):
        delayed(works, 1, UNIQ_KEY="U")
        delayed(works, 1, UNIQ_KEY="U")
        works.store.put = Mock(wraps=works.store.put, side_effect=[DEFAULT, DiskFull("no room")])
        await works.clock.advance(1_000)
        assert works.bodies("T", 2) == [b"hello"]
        await works.kill()
        await works.clock.advance(2_000)
        assert works.bodies("T", 2) == [b"hello", b"hello"]

    at_work(story)


def test_without_a_unique_key_a_kill_repeats_no_more_than_was_not_kept():
    async def story(works):
        delayed(works, 1, b"old")
        await works.clock.advance(1_900)
        delayed(works, 1, b"new")
        await works.clock.advance(1_050)  # the first is in the file since, the second is not
        await works.kill()
        await works.clock.advance(0)
        assert works.bodies("T", 2) == [b"old", b"new", b"new"]

    at_work(story)


def test_a_power_cut_takes_no_delivery_that_the_file_tells_of():
    async def story(works):
        chance = Random(7)
        delayed(works, 1)
        await works.store.flush()
        await works.clock.advance(2_000)
        assert kept(works) == {1: 1}
        await works.cut_power(chance)
        assert works.bodies("T", 2) == [b"hello"]

    at_work(story)


def test_no_room_delays_and_loses_nothing():
    async def story(works):
        for number in range(3):
            delayed(works, 1, str(number).encode())
        put, works.store.put = works.store.put, Mock(side_effect=DiskFull("no room"))
        await works.clock.advance(5_000)
        assert works.bodies("T", 2) == []
        assert works.schedule.body.offset_table == {}
        works.store.put = put
        await works.clock.advance(1_000)
        assert works.bodies("T", 2) == [b"0", b"1", b"2"]

    at_work(story)


def test_a_clock_that_is_set_back_makes_nobody_wait_longer_than_the_level():
    async def story(works):
        delayed(works, 2, b"head")
        await works.clock.advance(1_000)
        delayed(works, 2, b"behind it")
        works.clock.jump(-3_600_000)
        delayed(works, 2, b"after the jump")
        await works.clock.advance(4_001)  # the one: clocks differ by a part of a millisecond
        assert works.bodies("T", 2) == [b"head", b"behind it"]
        await works.clock.advance(999)
        assert works.bodies("T", 2)[2:] == [b"after the jump"]

    at_work(story)


def test_a_clock_that_is_set_forward_is_seen_within_a_minute():
    async def story(works):
        delayed(works, 18)
        await works.clock.advance(1_000)
        works.clock.jump(7_200_000)
        await works.clock.advance(60_000)
        assert works.bodies("T", 2) == [b"hello"]

    at_work(story)


def test_what_cannot_be_delivered_is_told_and_passed_over(caplog):
    def aside(**properties):
        return new(SCHEDULE, 0, DELAY="1", **properties)

    async def story(works):
        for message in (
            aside(REAL_TOPIC="RMQ_SYS_TRANS_HALF_TOPIC", REAL_QID="0"),
            aside(REAL_TOPIC=SCHEDULE, REAL_QID="0"),
            aside(REAL_TOPIC="../T", REAL_QID="0"),
            aside(REAL_TOPIC="T", REAL_QID="x"),
            aside(REAL_TOPIC="T", REAL_QID=str(2**31)),
            aside(REAL_TOPIC="T"),
            aside(REAL_QID="0"),
        ):
            works.store.put(message, works.clock.wall_ms())
        delayed(works, 1)
        await works.clock.advance(1_000)
        assert works.bodies("T", 2) == [b"hello"]
        assert works.store.bounds("RMQ_SYS_TRANS_HALF_TOPIC", 0) == (0, 0)
        assert works.store.bounds(SCHEDULE, 0) == (0, 8)
        assert works.schedule.body.offset_table == {1: 8}

    at_work(story)
    assert sum("cannot be delivered" in record.message for record in caplog.records) == 7


def test_a_file_that_is_ahead_of_an_empty_queue_skips_nothing():
    """The log was taken away, and the file stayed."""

    async def story(works):
        works.disk.overwrite(FILE, dumps(DelayOffsetTable(offset_table={1: 57})))
        await works.reopen()
        for number in range(3):
            delayed(works, 1, b"%d" % number)
            await works.clock.advance(1_000)
        assert works.bodies("T", 2) == [b"0", b"1", b"2"]
        await works.schedule.save()
        assert kept(works) == {1: 3}

    at_work(story)


def test_a_level_that_failed_goes_on(caplog):
    async def story(works):
        read = works.store.message
        works.store.message = Mock(side_effect=[RuntimeError("a bug"), OSError(5, "bad disk")])
        delayed(works, 1)
        await works.clock.advance(2_000)
        assert "a bug" in caplog.text
        assert "bad disk" in caplog.text
        works.store.message = read
        await works.clock.advance(1_000)
        assert works.bodies("T", 2) == [b"hello"]

    at_work(story)


def test_levels_that_the_settings_name_no_more_are_delivered_when_they_were_due():
    async def story(works):
        delayed(works, 4)
        works.use(
            msgspec.structs.replace(works.settings.now(BrokerConfig), message_delay_level="1s 2s"),
            works.settings.now(StoreConfig),
        )
        await works.reopen()
        await works.clock.advance(29_999)
        assert works.bodies("T", 2) == []
        await works.clock.advance(1)
        assert works.bodies("T", 2) == [b"hello"]

    at_work(story)


def test_an_offset_outside_of_its_queue_is_put_right(caplog):
    async def story(works):
        delayed(works, 1, b"one")
        await works.reopen()
        works.disk.overwrite(FILE, b'{"offsetTable":{1:99}}')
        await works.kill()
        delayed(works, 1, b"two")
        await works.clock.advance(1_000)
        assert works.bodies("T", 2) == [b"two"]

    at_work(story)
    assert "offset 99 is not in its queue" in caplog.text


def test_a_long_backlog_lets_others_have_their_turn():
    count = 2_000

    async def story(works):
        for _ in range(count):
            delayed(works, 1)
        works.clock.jump(1_000)
        await works.reopen()
        turns = 0
        while works.store.bounds("T", 2)[1] < count:
            before = works.store.bounds("T", 2)[1]
            await asyncio.sleep(0)
            assert works.store.bounds("T", 2)[1] - before <= 64
            turns += 1
        assert turns >= count // 64

    sizes = {"mapped_file_size_commit_log": 4 << 20, "mapped_file_size_consume_queue": 20 * 5000}
    at_work(story, sizes | {"max_index_num": 10_000})


steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.integers(1, 3)),
        st.tuples(st.just("pass"), st.sampled_from([1, 400, 1_000, 3_000])),
        st.tuples(st.just("kill"), st.just(0)),
        st.tuples(st.just("cut"), st.integers(0, 99)),
        st.tuples(st.just("reopen"), st.just(0)),
    ),
    max_size=25,
)


@settings(max_examples=examples(60))
@given(steps=steps)
def test_each_comes_once_and_in_order(steps):
    """Under SYNC_FLUSH, which each send here waits for: power cuts may repeat, kills may not."""
    levels_ms = (1_000, 2_000, 1_000)

    async def story(works):
        sent = {1: [], 2: [], 3: []}
        due_ms = {}
        has_cut = False
        for step, value in steps:
            match step:
                case "send":
                    body = f"{value}-{len(sent[value])}".encode()
                    stored = delayed(works, value, body, UNIQ_KEY=body.decode())
                    await works.store.durable(stored)
                    sent[value].append(body)
                    due_ms[body] = works.clock.wall_ms() + levels_ms[value - 1]
                case "pass":
                    await works.clock.advance(value)
                case "kill" | "cut" | "reopen":
                    has_cut |= step == "cut"
                    await works.fall(step, value)
        await works.clock.advance(2_000)
        came = works.stored("T", 2)
        for message in came:
            assert message.stored_ms >= due_ms[message.body]
        for level, bodies in sent.items():
            of_level = [m.body for m in came if m.properties["DELAY"] == str(level)]
            if has_cut:
                of_level = list(dict.fromkeys(of_level))
            assert of_level == bodies

    at_work(story, message_delay_level="1s 2s 1s")
