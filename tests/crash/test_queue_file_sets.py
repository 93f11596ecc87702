"""Random sets of queue files: missing, gapped, swapped, zeroed, truncated, garbage, and more.

Whatever happens to its queue files, a store serves all messages of its log, or refuses to start and
names the file. COMETMQ_QUEUE_FILE_SETS sets the number of sets.

docs/disk.md, sections 2 and 6, states the guarantees.
"""

import asyncio
import logging
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from cometmq.errors import BadState
from cometmq.protocol.records.message import unpack_records
from cometmq.store.message_store import MessageStore
from cometmq.store.queue.results import GetStatus
from cometmq.testing.clock import ManualClock
from crash.rig import CHECKPOINT, QUEUES, ROOT, START_MS, History, Sent, open_store, put, put_batch
from crash.shadow_disk import ShadowDisk

SETS = int(os.environ.get("COMETMQ_QUEUE_FILE_SETS", "60"))
FOLDER = Path(ROOT) / "consumequeue"
MANIFEST = Path(ROOT) / "manifest"
UNITS_A_FILE = 10
FILE_SIZE = 20 * UNITS_A_FILE
HOURS_96_MS = 96 * 3_600_000
SETTINGS = {"message_index_enable": False, "delete_when": "25"}
pytestmark = pytest.mark.timeout(3600)


# A store


async def written(chance: Random, state: str) -> tuple[ShadowDisk, list[Sent]]:
    """Write a store of many files. Returns the messages of its log in order."""
    disk, clock, history = ShadowDisk(), ManualClock(START_MS), History()
    disk.wall_ms = clock.wall_ms
    old = chance.choice((0, 0, 120))
    if old:
        async with open_store(disk, clock, **SETTINGS) as store:
            fill(store, history, chance, old)
        await clock.advance(HOURS_96_MS)
    store = open_store(disk, clock, **SETTINGS)
    await store.__aenter__()
    fill(store, history, chance, chance.randrange(20, 250))
    await store.flush()
    if old:
        store.clean()
        await store.flush()
    start = store.log_bounds[0]
    if state == "killed":
        await clock.advance(61_000)
        await store.flush()
        fill(store, history, chance, chance.randrange(20))
        await store.abandon()
    else:
        await store.__aexit__()
    if state == "foreign":  # as another broker leaves it
        disk.overwrite(CHECKPOINT, disk.read(CHECKPOINT)[:24].ljust(4096, b"\0"))
    return disk.kill(), [one for one in history.sent if one.stored.physical_offset >= start]


def fill(store: MessageStore, history: History, chance: Random, count: int) -> None:
    end = len(history.sent) + count
    while len(history.sent) < end:
        one_or_more = chance.choice((put, put_batch))
        assert one_or_more(store, history, chance, START_MS + len(history.sent)) is not None


# What happens to its files

Change = Callable[[ShadowDisk, Random], str]


def files_of(disk: ShadowDisk) -> list[Path]:
    folders = [FOLDER / topic / str(queue_id) for topic, queue_id in QUEUES]
    return [folder / name for folder in folders for name in disk.names(folder) if name.isdigit()]


def any_file(disk: ShadowDisk, chance: Random) -> Path:
    return chance.choice(files_of(disk) or [FOLDER / "Orders" / "0" / f"{0:020}"])


def content_of(disk: ShadowDisk, path: Path) -> bytearray:
    return bytearray(disk.read(path) if path.name in disk.names(path.parent) else bytes(FILE_SIZE))


def missing(disk: ShadowDisk, chance: Random) -> str:
    path = any_file(disk, chance)
    disk.delete(path)
    return f"{path} is missing"


def folder_missing(disk: ShadowDisk, chance: Random) -> str:
    folder = any_file(disk, chance).parent
    for name in disk.names(folder):
        disk.delete(folder / name)
    return f"{folder} is empty"


def gapped(disk: ShadowDisk, chance: Random) -> str:
    folder = max((path.parent for path in files_of(disk)), key=lambda one: len(disk.names(one)))
    inner = disk.names(folder)[1:-1]
    gone = chance.sample(inner, min(len(inner), chance.randint(1, 3)))
    for name in gone:
        disk.delete(folder / name)
    return f"{folder} lacks {gone}"


def folders_swapped(disk: ShadowDisk, chance: Random) -> str:
    one, other = (FOLDER / topic / str(number) for topic, number in chance.sample(QUEUES, 2))
    contents = {
        folder: {name: disk.read(folder / name) for name in disk.names(folder)}
        for folder in (one, other)
    }
    for folder, source in ((one, other), (other, one)):
        for name in contents[folder]:
            disk.delete(folder / name)
        for name, content in contents[source].items():
            disk.overwrite(folder / name, content)
    return f"{one} and {other} are swapped"


def files_swapped(disk: ShadowDisk, chance: Random) -> str:
    one, other = any_file(disk, chance), any_file(disk, chance)
    contents = content_of(disk, one), content_of(disk, other)
    disk.overwrite(one, bytes(contents[1]))
    disk.overwrite(other, bytes(contents[0]))
    return f"{one} and {other} are swapped"


def duplicated(disk: ShadowDisk, chance: Random) -> str:
    one, other = any_file(disk, chance), any_file(disk, chance)
    disk.overwrite(other, bytes(content_of(disk, one)))
    return f"{other} is a copy of {one}"


def zeroed(disk: ShadowDisk, chance: Random) -> str:
    path = any_file(disk, chance)
    disk.overwrite(path, bytes(FILE_SIZE))
    return f"{path} is of zeros"


def part_of(chance: Random) -> tuple[int, int]:
    start, end = sorted(chance.sample(range(FILE_SIZE + 1), 2))
    return (start // 20 * 20, -(-end // 20) * 20) if chance.random() < 0.5 else (start, end)


def part_zeroed(disk: ShadowDisk, chance: Random) -> str:
    path, (start, end) = any_file(disk, chance), part_of(chance)
    content = content_of(disk, path)
    content[start:end] = bytes(end - start)
    disk.overwrite(path, bytes(content))
    return f"{path} has zeros from {start} to {end}"


def garbage(disk: ShadowDisk, chance: Random) -> str:
    path, (start, end) = any_file(disk, chance), part_of(chance)
    content = content_of(disk, path)
    content[start:end] = chance.randbytes(end - start)
    disk.overwrite(path, bytes(content))
    return f"{path} has garbage from {start} to {end}"


def flipped(disk: ShadowDisk, chance: Random) -> str:
    path, bits = any_file(disk, chance), []
    content = content_of(disk, path)
    for _ in range(chance.choice((1, 1, 5))):
        unit, bit = chance.randrange(len(content) // 20 or 1), chance.randrange(96)
        if unit * 20 + bit // 8 < len(content):
            content[unit * 20 + bit // 8] ^= 1 << bit % 8
            bits.append((unit, bit))
    disk.overwrite(path, bytes(content))
    return f"{path} has other bits: {bits}"


def part_copied(disk: ShadowDisk, chance: Random) -> str:
    """Copy some units of another file to the same position."""
    one, other, (start, end) = any_file(disk, chance), any_file(disk, chance), part_of(chance)
    content = content_of(disk, other)
    content[start:end] = content_of(disk, one)[start:end]
    disk.overwrite(other, bytes(content))
    return f"{other} has what {one} has from {start} to {end}"


def truncated(disk: ShadowDisk, chance: Random) -> str:
    path = any_file(disk, chance)
    size = chance.choice((0, 20, chance.randrange(FILE_SIZE)))
    disk.overwrite(path, bytes(content_of(disk, path)[:size]))
    return f"{path} has {size} bytes"


def longer(disk: ShadowDisk, chance: Random) -> str:
    path = any_file(disk, chance)
    more = chance.choice((bytes(40), chance.randbytes(7), bytes(content_of(disk, path))))
    disk.overwrite(path, bytes(content_of(disk, path)) + more)
    return f"{path} has {len(more)} bytes more"


def extra(disk: ShadowDisk, chance: Random) -> str:
    path = any_file(disk, chance)
    base = int(path.name)
    names = (
        f"{base + FILE_SIZE * chance.randint(1, 30):020}",
        f"{base + chance.randrange(FILE_SIZE):020}",
        "note.txt", f"{base}.tmp", f"{2**62 // FILE_SIZE * FILE_SIZE:020}",
    )  # fmt: skip
    other = path.with_name(chance.choice(names))
    if chance.random() < 0.2:
        other = FOLDER / chance.choice(("Orders/7", "Nobody/0")) / path.name
    what = chance.choice((bytes(FILE_SIZE), chance.randbytes(FILE_SIZE), content_of(disk, path)))
    if other.name not in disk.names(other.parent):
        disk.write_at(other, 0, bytes(what), FILE_SIZE)
    return f"{other} is there too"


NOTICED: tuple[Change, ...] = (
    gapped, folders_swapped, files_swapped, duplicated, garbage, flipped, truncated, longer, extra,
)  # fmt: skip
# These may remove the end of a queue, or all of it. Without the manifest, as after another broker,
# only the end of the log shows that something is missing.
CHANGES = (*NOTICED, missing, folder_missing, zeroed, part_zeroed, part_copied)


# What a store then serves


# By topic and queue id: queue offset and body of each message.
Places = dict[tuple[str, int], list[tuple[int, bytes]]]


async def read_all(store: MessageStore) -> Places:
    """Return queue offset and body of every message, by queue, as consumers read them."""
    found = {}
    for queue in QUEUES:
        got = found[queue] = []
        offset, end = store.bounds(*queue)
        waits = 0
        while offset < end:
            answer = store.get(*queue, offset, 7)
            if answer.status is GetStatus.REBUILDING:
                assert answer.next_offset == offset
                waits += 1
                assert waits < 1000, f"{queue} at {offset} is never rebuilt"
                await asyncio.wait_for(store.rebuilt(), 30)
                continue
            for one in unpack_records(b"".join(answer.views)):
                assert (one.topic, one.queue_id) == queue, f"{one} in {queue}"
                got.append((one.queue_offset, one.body))
            assert answer.next_offset > offset
            offset = answer.next_offset
    return found


def expected_of(sent: list[Sent]) -> Places:
    expected = {queue: [] for queue in QUEUES}
    for one in sent:
        place = one.message.topic, one.message.queue_id
        expected[place].append((one.stored.queue_offset, one.message.body))
    return expected


async def check(disk: ShadowDisk, sent: list[Sent], chance: Random) -> Places:
    """Open the store, read it, and put messages. Returns its content."""
    clock = ManualClock(START_MS + HOURS_96_MS + 100_000)
    disk.wall_ms = clock.wall_ms
    expected = expected_of(sent)
    async with open_store(disk, clock, **SETTINGS) as store:
        if chance.random() < 0.5:  # before anything is read
            add(store, expected, chance)
        assert await read_all(store) == expected
        assert store.damaged == 0, "the log is intact"
        add(store, expected, chance)
        assert await read_all(store) == expected
    return expected


def add(store: MessageStore, expected: Places, chance: Random) -> None:
    history = History(serial=100_000)
    put_batch(store, history, chance, START_MS + 10**9)
    for queue, places in expected_of(history.sent).items():
        expected[queue] += places


async def try_set(seed: int, state: str, caplog) -> None:
    chance = Random(f"{seed} {state}")
    disk, sent = await written(chance, state)
    changes = chance.choices(
        NOTICED if state == "foreign" else CHANGES, k=chance.choice((1, 1, 2, 4))
    )
    done = [change(disk, chance) for change in changes]
    try:
        try:
            expected = await check(disk, sent, chance)
        except BadState as refused:
            assert str(FOLDER) in str(refused), f"no file is named: {refused}"
            return
        caplog.clear()
        after = disk.kill()
        clock = ManualClock(START_MS + HOURS_96_MS + 200_000)
        async with open_store(after, clock, **SETTINGS) as store:
            assert await read_all(store) == expected
            assert store.damaged == store.rebuilds == 0
        told = [line.getMessage() for line in caplog.records if line.levelno >= logging.WARNING]
        assert told == [], "a second start reports nothing"
    except Exception as error:
        raise AssertionError(f"seed {seed} {state}: {done}: {error!r}") from error


@pytest.mark.parametrize("state", ["clean", "killed", "foreign"])
def test_everything_is_served(state, caplog):
    caplog.set_level(logging.WARNING)
    for seed in range(SETS // 3 + (state == "clean") * (SETS % 3)):
        asyncio.run(try_set(seed, state, caplog))
