"""How much of their files queues keep in memory: little, however many they are.

What is to hold is in docs/disk.md, section 2.
"""

import tracemalloc

from cometmq.store.queue.consume_queue import UNIT, ConsumeQueue
from cometmq.store.queue.extended_queue import ExtendedCode, ExtendedQueue
from cometmq.store.queue.queue_table import QueueTable
from cometmq.store.queue.unit_cache import KEPT_SIZE_MAX, KeptUnits
from store.rig import UNCLEANED, RoomyDisk

QUEUES = 1000
MESSAGES = 2000
FILE_SIZE = 300_000 * 20


class MemoryDisk:
    """Files of units that all queues write alike: the first of them is kept for all."""

    content = b""

    def names(self, folder):
        return []

    def write_all(self, writes):
        for _, offset, data, _ in writes:
            if len(self.content) == offset:
                self.content += data
            assert self.content[offset : offset + len(data)] == data

    def read_at(self, path, offset, size):
        return self.content[offset : offset + size]


def units(start, count):
    return [(offset * 100, 100, offset % 7) for offset in range(start, start + count)]


def test_a_thousand_queues_keep_no_more_than_a_few_hundred_do(tmp_path):
    table = QueueTable(tmp_path, FILE_SIZE, MemoryDisk(), lambda *_: True, UNCLEANED)
    columns = list(zip(*units(0, MESSAGES), strict=True))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(QUEUES):
            table.get(f"T{number}", 0).append_all(*columns)
            table.write()
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    kept = sum(table.get(f"T{number}", 0).kept_size for number in range(QUEUES))
    assert KEPT_SIZE_MAX * 0.9 < kept <= KEPT_SIZE_MAX
    assert used < KEPT_SIZE_MAX + QUEUES * 2000, "and what a queue is without its units"
    for number in (0, QUEUES - 1):  # from its file, and from memory
        queue = table.get(f"T{number}", 0)
        for at in (0, MESSAGES // 2, MESSAGES - 10):
            assert list(UNIT.iter_unpack(queue.units(at, 10))) == units(at, 10)


def test_the_queue_that_was_written_to_longest_ago_is_released_first(tmp_path):
    disk = RoomyDisk()
    kept = KeptUnits(size_max=200)
    queues = [ConsumeQueue(tmp_path / str(number), 200, disk) for number in range(4)]

    def write(queue, count):
        start, end = queue.end, queue.end + count
        queue.append_all(*zip(*units(start, count), strict=True))
        for each in queue.unwritten():
            disk.write_at(*each)
        queue.written(end)
        kept.note(queue)

    for queue in queues[:3]:
        write(queue, 3)
    write(queues[0], 3)
    assert [queue.kept_size for queue in queues] == [120, 0, 60, 0]
    queues[2].append(300, 100, 3)  # in memory alone: it is not for us to release
    write(queues[3], 4)
    assert [queue.kept_size for queue in queues] == [120, 0, 0, 80]
    for queue in queues:
        assert list(UNIT.iter_unpack(b"".join(queue.units(at, 1) for at in range(queue.end)))) == (
            units(0, queue.end)
        )
    kept.forget(queues[0])
    write(queues[1], 3)
    assert [queue.kept_size for queue in queues] == [120, 60, 0, 80], "that one counts no more"


def test_an_extension_is_released_with_its_queue(tmp_path):
    disk = RoomyDisk()
    table = QueueTable(
        tmp_path / "consumequeue", 200, disk, lambda *_: True, UNCLEANED,
        make=lambda *given: ExtendedQueue(*given, extension_size=1000),
    )  # fmt: skip
    queue = table.get("T", 0)
    for number in range(30):
        queue.append(number * 100, 100, ExtendedCode(number, 1000 + number, b"\1\2\3"))
    table.write()
    assert queue.kept_size > 30 * 20
    queue.append(3000, 100, ExtendedCode(30, 1030, b"\1\2\3"))
    queue.release()
    assert queue.kept_size == 0
    codes = [
        (int(code), code.stored_ms)
        for at in range(31)
        for _, _, code in queue.coded(queue.units(at, 1))
    ]
    assert codes == [(number, 1000 + number) for number in range(31)]
