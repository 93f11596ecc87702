"""SQL by bits: the same messages as by records alone, and fewer records that are looked at."""

import asyncio
import json
from base64 import b64decode
from random import Random

import pytest

from broker.whole import FOLDER, SUSPEND, at_broker, bodies, open_whole, place
from cometmq.broker.statistics.shown_units import shown
from cometmq.protocol.bodies.filters import FilterTable
from cometmq.protocol.bodies.stats import QueueUnits
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.query import QueryConsumeQueueHeader
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.java.values import hash_code
from cometmq.store.queue.extended_queue import ExtendedCode
from cometmq.store.queue.queue_extension import QueueExtension, is_address
from cometmq.store.queue.reader import Reader
from cometmq.store.queue.results import Unit
from crash.shadow_disk import ShadowDisk

EXTENDED = {"enable_consume_queue_ext": True, "mapped_file_size_consume_queue_ext": 1024}
ON = {"store_settings": EXTENDED, "enable_calc_filter_bit_map": True}
OFF = {}
KEPT = FOLDER / "config" / "consumerFilter.json"
COLOURS = ("red", "green", "blue")
GROUPS = {
    "reds": "colour = 'red'",
    "large": "size > 50",
    "both": "colour IN ('red', 'blue') AND size BETWEEN 10 AND 70",
    "plain": "TAGS IS NULL",
    "none": "colour = 'black'",
}


@pytest.fixture
def looked_at(monkeypatch):
    """Places of the records that a filter looked at."""
    places = []
    is_wanted = Reader._is_wanted

    def spy(self, physical_offset, size, wants):
        places.append(physical_offset)
        return is_wanted(self, physical_offset, size, wants)

    monkeypatch.setattr(Reader, "_is_wanted", spy)
    return places


async def join(whole, group="G", expression="colour = 'red'", version=1):
    whole.make_topic()
    await whole.consume(group, ("T", expression, "SQL92"), client_id=group, version=version)


async def send(whole, *colours, **properties):
    """A message of each colour, a millisecond after what came before."""
    for colour in colours:
        await whole.clock.advance(1)
        reply = await whole.send(
            body=colour.encode(), properties={"colour": colour, "TAGS": colour} | properties
        )
        assert reply.code == 0, reply.remark


async def pull(whole, group="G", offset=0, sys_flag=0):
    return await whole.pull(
        consumer_group=group, queue_offset=offset, sys_flag=sys_flag, sub_version=0
    )


async def pull_all(whole, group):
    offset, found = 0, []
    while True:
        reply = await pull(whole, group, offset)
        if reply.code == ResponseCode.PULL_NOT_FOUND:
            return found
        assert reply.code in (0, ResponseCode.PULL_RETRY_IMMEDIATELY), reply.remark
        found += bodies(reply)
        offset = reply.header.next_begin_offset


def story_of(seed):
    """Messages, groups that come among them, and what each group got in the end."""

    async def story(whole):
        draw = Random(seed)
        coming = list(GROUPS)
        draw.shuffle(coming)
        for number in range(300):
            if number % 50 == 0 and coming:
                group = coming.pop()
                await join(whole, group, GROUPS[group])
                await pull(whole, group)
            properties = {"size": str(draw.randrange(100))}
            if draw.random() < 0.8:
                properties["colour"] = draw.choice(COLOURS)
            if draw.random() < 0.5:
                properties["TAGS"] = "t"
            await whole.clock.advance(draw.randrange(2))
            await whole.send(body=str(number).encode(), properties=properties)
        return {group: await pull_all(whole, group) for group in GROUPS}

    return story


@pytest.mark.parametrize("seed", range(5))
def test_each_group_gets_the_same_with_bits_and_without(seed, looked_at):
    by_bits = at_broker(story_of(seed), **ON, enable_property_filter=True)
    looks = len(looked_at)
    assert at_broker(story_of(seed), **OFF, enable_property_filter=True) == by_bits
    assert 0 < looks < (len(looked_at) - looks) * 0.75
    assert all(by_bits[group] for group in GROUPS if group != "none")


def run(story, **how):
    at_broker(story, **(ON | {"enable_property_filter": True} | how))


def test_messages_that_do_not_match_are_skipped_unread(looked_at):
    async def story(whole):
        await join(whole)
        await pull(whole)
        await send(whole, "red", "blue", "green", "red")
        reply = await pull(whole)
        assert bodies(reply) == [b"red", b"red"]
        assert place(reply) == (4, 0, 4)
        assert len(looked_at) == 2

    run(story)


def test_what_was_there_before_the_condition_is_looked_at(looked_at):
    async def story(whole):
        await join(whole, "other", "colour = 'green'")
        await pull(whole, "other")
        await send(whole, "red", "blue")
        await join(whole)
        assert bodies(await pull(whole)) == [b"red"]
        assert len(looked_at) == 2
        looked_at.clear()
        await join(whole, expression="colour = 'blue'", version=2)
        assert bodies(await pull(whole)) == [b"blue"]
        assert len(looked_at) == 2, "another condition"

    run(story)


def test_a_pull_with_a_condition_of_its_own_goes_by_records(looked_at):
    async def story(whole):
        await join(whole)
        await pull(whole)
        await send(whole, "red", "blue")
        reply = await whole.pull(subscription="colour = 'blue'", expression_type="SQL92")
        assert bodies(reply) == [b"blue"]
        assert len(looked_at) == 2

    run(story)


def test_a_parked_pull_sleeps_until_its_bits_come(looked_at):
    async def story(whole):
        await join(whole)
        await send(whole, "green")
        parked = whole.begin_pull(queue_offset=1, sys_flag=SUSPEND, sub_version=0)
        await send(whole, "blue", "green")
        assert not parked.done()
        assert looked_at == []
        await send(whole, "red")
        assert bodies(await parked) == [b"red"]

    run(story)


def test_tags_and_delays_are_in_the_extension():
    async def story(whole):
        whole.make_topic(queues=1)
        await send(whole, "red", "blue")
        assert bodies(await whole.pull(subscription="blue")) == [b"blue"]
        await whole.send(body=b"later", properties={"DELAY": "2", "TAGS": "blue"})
        queue = whole.store._queues.get("SCHEDULE_TOPIC_XXXX", 1)
        assert is_address(queue.unit(0)[2])
        await whole.clock.advance(4_999)
        assert bodies(await whole.pull(subscription="blue")) == [b"blue"]
        await whole.clock.advance(1)
        assert bodies(await whole.pull(subscription="blue")) == [b"blue", b"later"]

    run(story)


def test_a_delay_is_kept_though_its_extension_is_lost():
    async def story():
        disk = ShadowDisk()
        async with await opened(disk) as whole:
            clock = whole.clock
            whole.make_topic()
            await whole.send(body=b"later", properties={"DELAY": "2"})
        extension = FOLDER / "consumequeue_ext" / "SCHEDULE_TOPIC_XXXX" / "1"
        for name in disk.names(extension):
            disk.delete(extension / name)
        async with await opened(disk, clock) as whole:
            await clock.advance(4_999)
            assert whole.store.bounds("T", 0) == (0, 0)
            await clock.advance(1)
            assert bodies(await whole.pull()) == [b"later"]

    asyncio.run(story())


async def opened(disk, clock=None, **how):
    return open_whole(disk=disk, clock=clock, **(ON | {"enable_property_filter": True} | how))


def test_bits_count_after_an_orderly_stop_and_not_after_a_crash(looked_at):
    async def story():
        disk = ShadowDisk()
        async with await opened(disk) as whole:
            clock = whole.clock
            await join(whole)
            await pull(whole)
            await send(whole, "red", "blue", "green")
        async with await opened(disk, clock) as whole:
            await join(whole)
            assert bodies(await pull(whole)) == [b"red"]
            assert len(looked_at) == 1
            await whole.store.flush()
            crashed = disk.crash(Random(1))
        looked_at.clear()
        async with await opened(crashed, clock) as whole:
            await join(whole)
            assert bodies(await pull(whole)) == [b"red"]
            assert len(looked_at) == 3
            await send(whole, "blue", "red")
            looked_at.clear()
            assert bodies(await pull(whole, offset=3)) == [b"red"]
            assert len(looked_at) == 1

    asyncio.run(story())


def test_with_the_settings_off_again_what_is_there_is_read():
    async def story():
        disk = ShadowDisk()
        async with await opened(disk) as whole:
            clock = whole.clock
            await join(whole)
            await pull(whole)
            await send(whole, "red", "blue")
            await whole.send(body=b"later", properties={"DELAY": "2", "TAGS": "blue"})
        size = {"mapped_file_size_consume_queue_ext": 1024}
        plain = {"store_settings": size, "enable_calc_filter_bit_map": False}
        async with await opened(disk, clock, **plain) as whole:
            await send(whole, "red", "blue")
            for offset in (0, 2):  # from the file, and from memory
                reply = await whole.pull(subscription="blue", queue_offset=offset)
                assert bodies(reply) == [b"blue"]
            assert not is_address(whole.store._queues.get("T", 0).unit(3)[2])
            await whole.clock.advance(4_900)
            assert whole.store.bounds("T", 0) == (0, 4)
            await whole.clock.advance(100)
            assert whole.store.bounds("T", 0) == (0, 5)

    asyncio.run(story())


def test_conditions_are_kept_every_ten_seconds():
    async def story(whole):
        await join(whole)
        await pull(whole)
        assert KEPT.name not in whole.disk.names(KEPT.parent)
        await whole.clock.advance(10_000)
        kept = loads(whole.disk.read(KEPT), FilterTable).filter_data_by_topic["T"]
        assert not kept.group_filter_data["G"].dead
        whole.clients.drop(next(iter(whole.clients.consumers["G"].members)))
        await whole.clock.advance(10_000)
        kept = loads(whole.disk.read(KEPT), FilterTable).filter_data_by_topic["T"]
        assert kept.group_filter_data["G"].dead

    run(story)


def test_a_deleted_topic_leaves_no_extension():
    async def story(whole):
        await send(whole, "red")
        await whole.store.flush()
        folder = FOLDER / "consumequeue_ext" / "T" / "0"
        assert whole.disk.names(folder)
        reply = await whole.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "T"})
        assert reply.code == 0
        assert not whole.disk.names(folder)

    run(story)


def test_bits_without_a_place_for_them_are_not_made(caplog):
    async def story(whole):
        await join(whole)
        await pull(whole)
        await send(whole, "red", "blue")
        assert bodies(await pull(whole)) == [b"red"]
        await whole.store.flush()
        assert not whole.disk.names(FOLDER / "consumequeue_ext")

    run(story, store_settings={})
    assert "does nothing without enableConsumeQueueExt" in caplog.text


def test_an_extension_alone_holds_codes():
    async def story(whole):
        await join(whole)
        await pull(whole)
        await send(whole, "red", "blue")
        assert bodies(await pull(whole)) == [b"red"]
        (unit, _) = whole.store.units("T", 0, 0, 2)
        assert unit.code.bits == b""
        await whole.clock.advance(10_000)
        assert KEPT.name not in whole.disk.names(KEPT.parent)

    run(story, enable_calc_filter_bit_map=False)


async def units(whole, group=None):
    header = QueryConsumeQueueHeader(topic="T", queue_id=0, index=0, count=10, consumer_group=group)
    reply = await whole.ask(RequestCode.QUERY_CONSUME_QUEUE, header)
    assert reply.code == 0, reply.remark
    return loads(reply.body, QueueUnits)


def test_a_queue_shows_what_its_extension_says():
    async def story(whole):
        await join(whole)
        await pull(whole)  # from then on its condition is tried
        await send(whole, "red", "blue")
        found = await units(whole, "G")
        red, blue = found.queue_data
        assert (red.evaluated, blue.evaluated) == (True, False)
        assert red.tags_code == hash_code("red")
        now_ms = whole.clock.wall_ms()
        extension = json.loads(red.extend_data_json)
        assert list(extension) == ["filterBitMap", "msgStoreTime", "size", "tagsCode"]
        bits = b64decode(extension.pop("filterBitMap"))
        assert extension == {
            "msgStoreTime": now_ms - 1, "size": 20 + len(bits), "tagsCode": red.tags_code,
        }  # fmt: skip
        kept = json.loads(found.filter_data)
        assert (kept["consumerGroup"], kept["expression"]) == ("G", "colour = 'red'")
        set_in_red = {at for at in range(8 * len(bits)) if bits[at // 8] >> at % 8 & 1}
        assert set_in_red == set(kept["bloomFilterData"]["bitPos"])
        # From the last bit on, with an end of line after each that begins eight bytes.
        lines = red.bit_map.splitlines()
        assert list(map(len, lines)) == [8 * (len(bits) % 8), *[64] * (len(bits) // 8)]
        assert int("".join(lines), 2) == int.from_bytes(bits, "little")
        assert int(blue.bit_map.replace("\n", ""), 2) == 0
        assert (await units(whole)).filter_data is None

    at_broker(story, enable_property_filter=True, **ON)


def test_a_queue_shows_that_an_extension_is_lost(monkeypatch):
    async def story(whole):
        await join(whole)
        await send(whole, "red")
        monkeypatch.setattr(QueueExtension, "get", lambda self, address: None)
        (unit,) = (await units(whole)).queue_data
        assert is_address(unit.tags_code)
        assert unit.message == f"Cq extend not exist!addr: {unit.tags_code}"
        assert (unit.bit_map, unit.extend_data_json) == (None, None)

    at_broker(story, enable_property_filter=True, **ON)


@pytest.mark.parametrize(
    ("bits", "text"),
    [
        (b"\x03", "00000011\n"),
        (bytes(8), "0" * 64 + "\n"),
        (b"\x01\x82" + bytes(11) + b"\x40", f"01{0:046}\n{0:048}1000001000000001\n"),
        (bytes(17), "0" * 8 + "\n" + ("0" * 64 + "\n") * 2),
    ],
)  # fmt: skip
def test_a_bit_map_is_as_the_original_shows_it(bits, text):
    assert shown(Unit(0, 0, ExtendedCode(7, 1, bits)), True).bit_map == text


def test_an_extension_without_bits_is_as_the_original_shows_it():
    unit = shown(Unit(0, 0, ExtendedCode(7, 1, b"")), True)
    assert unit.extend_data_json == '{"msgStoreTime":1,"size":20,"tagsCode":7}'
    assert unit.bit_map is None
