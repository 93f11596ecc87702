"""The store: CPU of a put and a get, group commit against the bare disk, start after a crash."""

import asyncio
import os
import shutil
import tempfile
import time
from pathlib import Path

from measure import machine, show

from cometmq.disk import RealDisk
from cometmq.protocol.records.hosts import Host
from cometmq.seams import RealClock
from cometmq.store.config import StoreConfig
from cometmq.store.log.new_message import NewMessage
from cometmq.store.message_store import MessageStore

HOST = Host("127.0.0.1", 10911)
PUTS = 100_000
SYNC_PUTS = 3_000
BIG_STORE = 2 << 30
BIG_BODY, BIG_PUTS = b"x" * (1 << 20), 512


def open_store(folder: Path, **settings: object) -> MessageStore:
    sizes = {"max_hash_slot_num": 1_000_000, "max_index_num": 10_000_000}
    config = StoreConfig(store_path_root_dir=str(folder), **(sizes | settings))
    return MessageStore(config, RealDisk(), RealClock(), HOST)


def message(i: int, topic: str = "TopicTest", queue_id: int = 0) -> NewMessage:
    return NewMessage(
        topic=topic,
        queue_id=queue_id,
        body=b"x" * 128,
        properties_text=f"KEYS\x01key{i:06}\x02UNIQ_KEY\x017F00000100002A139A551234{i:08X}\x02TAGS\x01A",
        born_ms=1_700_000_000_000,
    )


async def puts_and_gets(folder: Path) -> None:
    async with open_store(folder) as store:
        now_ms = RealClock().wall_ms()
        messages = [message(i, queue_id=i % 4) for i in range(PUTS)]
        best = float("inf")
        for _ in range(5):
            begun = time.process_time()
            for one in messages:
                store.put(one, now_ms)
            best = min(best, time.process_time() - begun)
            await asyncio.sleep(0)
        show("put of 128 bytes, two keys, queue and index", best / PUTS * 1e6, "us CPU", "aim 6")
        batches = [
            [message(i, queue_id=4) for i in range(at, at + 32)] for at in range(0, PUTS, 32)
        ]
        best = float("inf")
        for _ in range(5):
            begun = time.process_time()
            for batch in batches:
                store.put_all(batch, now_ms)
            best = min(best, time.process_time() - begun)
        show("  each of a batch of 32", best / PUTS * 1e6, "us CPU", "aim 4")
        best = float("inf")
        for _ in range(5):
            begun = time.process_time()
            for i in range(2000):
                store.get("TopicTest", 0, i * 32, 32)
            best = min(best, time.process_time() - begun)
        show("get of 32, four queues interleaved", best / 2000 * 1e6, "us CPU", "aim 20")
        best = float("inf")
        for _ in range(5):
            begun = time.process_time()
            for i in range(2000):
                store.get("TopicTest", 4, i * 32, 32)
            best = min(best, time.process_time() - begun)
        show("get of 32 neighbours", best / 2000 * 1e6, "us CPU")


async def sequential(folder: Path) -> None:
    """Bytes a second of large appends, and of dd's way to write them; in turns, the best of each.

    Whoever is first to use a page of a virtual machine's memory waits for its host.
    """
    rounds = [(await appended(folder / str(n)), written(folder / f"plain{n}")) for n in range(3)]
    ours, plain = map(max, zip(*rounds, strict=True))
    show("appends of 1 MiB, flushed at the end", ours, "MiB/s", f"plain file {plain:,.0f}")


async def appended(folder: Path) -> float:
    async with open_store(folder, message_index_enable=False) as store:
        begun = time.perf_counter()
        for _ in range(BIG_PUTS):
            store.put(NewMessage(topic="Big", queue_id=0, body=BIG_BODY), 0)
        await store.flush()
        rate = BIG_PUTS / (time.perf_counter() - begun)
    shutil.rmtree(folder)
    return rate


def written(path: Path) -> float:
    begun = time.perf_counter()
    with path.open("wb") as file:
        for _ in range(BIG_PUTS):
            file.write(BIG_BODY)
        file.flush()
        os.fsync(file.fileno())
    rate = BIG_PUTS / (time.perf_counter() - begun)
    path.unlink()
    return rate


async def group_commit(folder: Path) -> None:
    async with open_store(folder / "store", message_index_enable=False) as store:
        for waiters in (1, 64):

            async def send(count: int) -> None:
                for i in range(count):
                    await store.durable(store.put(message(i), 0))

            count = SYNC_PUTS if waiters == 1 else SYNC_PUTS * 10
            begun = time.perf_counter()
            await asyncio.gather(*(send(count // waiters) for _ in range(waiters)))
            rate = count / (time.perf_counter() - begun)
            show(f"sends acknowledged on disk, {waiters} waiting", rate, "1/s")
    descriptor = os.open(folder / "bare", os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(descriptor, 0, SYNC_PUTS * 4096)
    begun = time.perf_counter()
    for i in range(SYNC_PUTS):
        os.pwrite(descriptor, b"x" * 256, i * 256)
        os.fdatasync(descriptor)
    show("bare fdatasync on the same disk", SYNC_PUTS / (time.perf_counter() - begun), "1/s")
    os.close(descriptor)


async def start_after_crash(folder: Path) -> None:
    """Written, flushed, a second more written, then nothing closed."""
    store = await open_store(folder).__aenter__()
    body = b"x" * 2000
    clock = RealClock()
    count = 0
    while store.log_bounds[1] < BIG_STORE:
        for _ in range(2000):
            one = NewMessage(
                topic="Big", queue_id=count % 8, body=body,
                properties_text=f"UNIQ_KEY\x017F00000100002A139A551234{count:08X}",
            )  # fmt: skip
            store.put(one, clock.wall_ms())
            count += 1
        await asyncio.sleep(0)
    await asyncio.sleep(4)  # so that the checkpoint is seconds old, and its margin too
    for i in range(2000):
        store.put(message(i), clock.wall_ms())
    await store.abandon()
    begun = time.perf_counter()
    async with open_store(folder) as again:
        spent = time.perf_counter() - begun
        show(f"start after a crash, {count:,} messages in 2 GiB", spent, "s", "aim 2")
        show("  of which dispatched again", again.recovered.redispatched, "messages")
    begun = time.perf_counter()
    async with open_store(folder):
        show("start after a clean stop", time.perf_counter() - begun, "s")
    spent = await rebuilt(folder)
    show("rebuild of queues and index from the log", BIG_STORE / spent / 2**30, "GiB/s", "aim 0.3")


async def rebuild_of_small(folder: Path) -> None:
    async with open_store(folder) as store:
        now_ms = RealClock().wall_ms()
        for i in range(PUTS * 5):
            store.put(message(i, queue_id=i % 4), now_ms)
    spent = await rebuilt(folder)
    show("rebuild with messages of 128 bytes, two keys", spent / PUTS / 5 * 1e6, "us each")


async def rebuilt(folder: Path) -> float:
    """Seconds that it takes to open a store of which the log alone is left."""
    shutil.rmtree(folder / "consumequeue")
    shutil.rmtree(folder / "index")
    (folder / "checkpoint").unlink()
    (folder / "abort").touch()
    begun = time.perf_counter()
    async with open_store(folder):
        return time.perf_counter() - begun


async def many_topics(folder: Path) -> None:
    for topics in (1, 1_000, 20_000):
        async with open_store(folder / str(topics), mapped_file_size_commit_log=256 << 20) as store:
            count = max(40_000, topics)
            messages = [message(i, f"topic-{i % topics}") for i in range(count)]
            now_ms = RealClock().wall_ms()
            for one in messages[:topics]:
                store.put(one, now_ms)  # opens the queues
            begun = time.process_time()
            for one in messages:
                store.put(one, now_ms)
            spent = time.process_time() - begun
            files = len(list(Path("/proc/self/fd").iterdir()))
            show(
                f"put with {topics:,} topics", spent / count * 1e6, "us CPU", f"{files} open files"
            )


def main() -> None:
    print(f"store, {machine()}")
    for part in (
        puts_and_gets, sequential, group_commit, many_topics, start_after_crash, rebuild_of_small,
    ):  # fmt: skip
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(part(Path(folder)))


if __name__ == "__main__":
    main()
