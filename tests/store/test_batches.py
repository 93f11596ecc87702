"""Several messages put at once leave the bytes that they leave one by one, or nothing."""

import asyncio
from itertools import accumulate
from random import Random

import msgspec
import pytest

from cometmq.disk import RealDisk
from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.records.hosts import Host
from cometmq.store.log.new_message import NeedsNewFile, NewMessage, RecordWriter, by_columns
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.extended_queue import ExtendedCode
from cometmq.store.queue.results import Stored, StoredMessages
from cometmq.testing.clock import ManualClock
from store.rig import HOST, NOON_MS, config_of, message, open_store, read_all

PREPARED = int(MessageFlag.PREPARED)


def mixed(chance: Random, count: int) -> list[NewMessage]:
    """Of several topics and queues, with no key to four, some in no queue."""
    return [
        message(
            b"b" * chance.randrange(60),
            topic=chance.choice(("T", "U")),
            queue_id=chance.randrange(3),
            sys_flag=chance.choice((0, 0, 0, PREPARED)),
            born_host=chance.choice((HOST, Host("::1", 7))),
            TAGS=chance.choice(("a", "b")),
            **chance.choice(
                (
                    {},
                    {"KEYS": f"k{chance.randrange(9)}"},
                    {"KEYS": "one two three", "UNIQ_KEY": f"{chance.randrange(2**64):032X}"},
                    {"KEYS": "é", "UNIQ_KEY": f"{chance.randrange(2**64):032X}"},
                    {"KEYS": f"k{number}", "UNIQ_KEY": f"7F00000100002A139A551234{number:08X}"},
                )
            ),
        )
        for number in range(count)
    ]


def files_of(folder):
    kinds = ("commitlog", "consumequeue", "index")
    paths = [path for kind in kinds for path in (folder / kind).rglob("*") if path.is_file()]
    return {path.relative_to(folder): path.read_bytes() for path in paths}


def heard(told):
    """What whoever waits at a queue learns: where it ends, and which codes came."""
    found = {}
    for topic, queue_id, end, code in told:
        ends, codes = found.setdefault((topic, queue_id), ([], set()))
        ends.append(end)
        codes.add(code)
    return {
        queue: (max(ends), ends == sorted(ends), codes) for queue, (ends, codes) in found.items()
    }


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("has_index", [True, False])
def test_together_and_one_by_one_leave_the_same_bytes(tmp_path, seed, has_index):
    """Also where files end: there, nothing is put together."""
    chance = Random(seed)
    groups = [mixed(chance, chance.choice((1, 2, 5, 9))) for _ in range(12)]
    told = {"one": [], "many": []}
    taken = []

    async def story(name, put):
        async with open_store(
            tmp_path / name,
            clock=ManualClock(NOON_MS),
            announce=lambda *news: told[name].append(news),
            max_index_num=90,
            message_index_enable=has_index,
        ) as store:
            stored = [each for group in groups for each in put(store, group)]
            await store.flush()
            return stored, store.log_bounds

    def one_by_one(store, group):
        return [store.put(one, NOON_MS) for one in group]

    def together(store, group):
        try:
            stored = store.put_all(group, NOON_MS, in_this_file=True)
        except NeedsNewFile:
            taken.append(False)
            return one_by_one(store, group)
        taken.append(True)
        return stored

    assert asyncio.run(story("one", one_by_one)) == asyncio.run(story("many", together))
    assert heard(told["one"]) == heard(told["many"])
    assert any(taken)
    assert not all(taken)
    files = files_of(tmp_path / "one")
    assert files
    assert files == files_of(tmp_path / "many")


def test_who_waits_by_more_than_a_code_is_told_of_each(tmp_path):
    """Equal codes, with bits that differ: a filter may want the second and not the first."""
    told, numbers = [], iter(range(9))

    def coder(topic, text, code, stored_ms):
        return ExtendedCode(code, stored_ms, bytes([next(numbers)]))

    async def story():
        async with MessageStore(
            config_of(tmp_path), RealDisk(), ManualClock(NOON_MS), HOST,
            announce=lambda *news: told.append(news[-1].bits), coder=coder,
        ) as store:  # fmt: skip
            store.put_all([message(TAGS="a"), message(TAGS="a")], NOON_MS)

    asyncio.run(story())
    assert told == [b"\x00", b"\x01"]


@pytest.mark.parametrize(
    "bad", [message(b"y" * 5000), message(topic="T" * 128), message(sys_flag=2**31, KEYS="bad")]
)
def test_with_one_that_is_refused_nothing_is_put(tmp_path, bad):
    async def story():
        async with open_store(tmp_path) as store:
            with pytest.raises(NeedsNewFile):  # there is no file yet
                store.put_all([message(b"first")], 1, in_this_file=True)
            store.put(message(b"first", KEYS="k"), 1)
            before = store.log_bounds, store.bounds("T", 0)
            many = [message(b"a", KEYS="a"), bad, message(b"b", KEYS="b")]
            with pytest.raises((TooLarge, Malformed, NeedsNewFile)):
                store.put_all(many, 1, in_this_file=True)
            assert (store.log_bounds, store.bounds("T", 0)) == before
            assert store.query("T", "a", 0, 2**62) == []
            assert [one.body for one in read_all(store)] == [b"first"]

    asyncio.run(story())


@pytest.mark.parametrize("seed", range(5))
def test_records_of_many_are_those_of_each(seed):
    messages = mixed(Random(seed), 20)
    writer = RecordWriter(HOST, 100)
    prepared = [writer.prepare_one(one) for one in messages]
    columns = by_columns(messages)
    assert writer.prepare(columns) == prepared
    base, sizes = 1 << 30, [size for size, *_ in prepared]
    offsets = list(accumulate(sizes[:-1], initial=base + 40))
    places = StoredMessages(offsets, range(len(sizes)), sizes)
    each, many = memoryview(bytearray(8000)), memoryview(bytearray(8000))
    for one, ready, place in zip(messages, prepared, places, strict=True):
        offset = place.physical_offset
        writer.write_one(each, offset - base, offset, place.queue_offset, 5, one, ready)
    writer.write(many, base, 5, columns, prepared, places)
    assert each == many


def test_columns_and_messages_are_the_same():
    messages = mixed(Random(1), 20)
    columns = by_columns(messages)
    assert len(columns) == 20
    names = NewMessage.__struct_fields__
    rows = zip(*msgspec.structs.astuple(columns), strict=True)
    assert [NewMessage(**dict(zip(names, row, strict=True))) for row in rows] == messages
    places = StoredMessages([7, 17], [0, 1], [10, 5])
    assert (len(places), list(places)) == (2, [Stored(7, 0, 10, 17), Stored(17, 1, 5, 22)])
    assert places[-1] == Stored(17, 1, 5, 22)


def test_many_are_held_to_the_same_limits():
    writer = RecordWriter(HOST, 100)
    with pytest.raises(TooLarge, match="maxMessageSize"):
        writer.prepare(by_columns([message(b"good"), message(b"x" * 101)]))
    odd = by_columns([message(b"", sys_flag=2**31)])
    (ready,) = writer.prepare(odd)
    place = StoredMessages([0], [0], [ready[0]])
    with pytest.raises(Malformed, match="does not fit"):
        writer.write(memoryview(bytearray(500)), 0, 5, odd, [ready], place)
