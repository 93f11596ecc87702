"""A queue whose units have an extension: codes go in with bits, and come out with them.

What is to hold is in docs/disk.md, section 2.
"""

from pathlib import Path
from random import Random

import pytest

from cometmq.store.queue.consume_queue import UNIT, ConsumeQueue
from cometmq.store.queue.extended_queue import ExtendedCode, ExtendedQueue
from cometmq.store.queue.queue_extension import is_address
from cometmq.store.queue.queue_files import write_in_order
from cometmq.store.queue.results import UnitVerdict
from crash.shadow_disk import ShadowDisk

FOLDER = Path("/store/consumequeue/T/0")
EXTENSION = Path("/store/consumequeue_ext/T/0")
FILE_SIZE, EXTENSION_SIZE = 20 * 10, 256
BITS = bytes(range(14))


def open_queue(disk, judge=lambda *unit: UnitVerdict.GOOD):
    queue = ExtendedQueue(FOLDER, FILE_SIZE, disk, EXTENSION_SIZE)
    queue.load(judge)
    return queue


def append(queue, count):
    """Records of 100 bytes one after the other, each with a code of its own."""
    for number in range(queue.end, queue.end + count):
        queue.append(number * 100, 100, ExtendedCode(number, number * 1000, BITS))


def flush(queue, disk):
    end = queue.end
    write_in_order(disk, [queue.unwritten()])
    queue.written(end)


def codes(queue, start=0):
    packed = b"".join(queue.units(offset, 1) for offset in range(start, queue.end))
    return [code for _, _, code in queue.coded(packed)]


def check(queue, first, end):
    assert (queue.first, queue.end) == (first, end)
    found = codes(queue, first)
    assert found == list(range(first, end))
    assert all(code.bits == BITS and code.stored_ms == code * 1000 for code in found)


def test_a_code_is_kept_with_its_time_and_bits():
    disk = ShadowDisk()
    queue = open_queue(disk)
    append(queue, 35)
    assert all(is_address(code) for *_, code in UNIT.iter_unpack(queue.units(0, 5)))
    check(queue, 0, 35)
    flush(queue, disk)
    assert not queue.has_unwritten
    check(queue, 0, 35)
    again = open_queue(disk)
    check(again, 0, 35)
    append(again, 10)
    check(again, 0, 45)


def test_a_plain_code_stays_plain_beside_others():
    disk = ShadowDisk()
    plain = ConsumeQueue(FOLDER, FILE_SIZE, disk)
    plain.append(0, 100, 7)
    flush(plain, disk)
    queue = open_queue(disk)
    append(queue, 1)
    queue.append(200, 100, -5)
    assert codes(queue) == [7, 1, -5]
    assert [isinstance(code, ExtendedCode) for code in codes(queue)] == [False, True, False]
    flush(queue, disk)
    assert codes(open_queue(disk)) == [7, 1, -5]


def test_an_address_that_leads_nowhere_stays():
    disk = ShadowDisk()
    queue = open_queue(disk)
    append(queue, 3)
    flush(queue, disk)
    disk.delete(EXTENSION / f"{0:020}")
    assert all(is_address(code) for code in codes(open_queue(disk)))


def test_what_the_queue_lost_is_put_again():
    disk = ShadowDisk()
    queue = open_queue(disk)
    append(queue, 35)
    flush(queue, disk)
    again = open_queue(disk)
    again.cut_from(12 * 100)
    check(again, 0, 12)
    last = max(disk.names(EXTENSION))
    end = 12 * 34  # 7 units a file
    assert int(last) == end // 34 // 7 * EXTENSION_SIZE
    assert not any(disk.read(EXTENSION / last)[(12 - 7) * 34 :]), "the original goes by zeros"
    append(again, 20)
    flush(again, disk)
    check(open_queue(disk), 0, 32)


def test_units_of_records_that_are_not_there_are_cut_when_it_is_loaded():
    disk = ShadowDisk()
    queue = open_queue(disk)
    append(queue, 35)
    flush(queue, disk)
    verdicts = UnitVerdict.STRAY, UnitVerdict.GOOD
    again = open_queue(disk, lambda key, queue_offset, *unit: verdicts[queue_offset < 30])
    check(again, 0, 30)
    append(again, 5)
    check(again, 0, 35)


def test_old_files_of_both_go():
    disk = ShadowDisk()
    queue = open_queue(disk)
    append(queue, 35)
    flush(queue, disk)
    queue.forget_before(22 * 100)
    check(queue, 22, 35)
    gone = queue.files_before_first()
    assert [path.parent for path in gone] == [FOLDER] * 2 + [EXTENSION] * 3
    for path in gone:
        disk.delete(path)
    check(queue, 22, 35)
    assert queue.files_before_first() == []
    append(queue, 5)
    check(queue, 22, 40)


@pytest.mark.parametrize("seed", range(30))
def test_after_a_power_cut_no_address_leads_nowhere(seed):
    """Whatever of the last flush was on disk: the extension was there before the queue."""
    chance = Random(seed)
    disk = ShadowDisk()
    queue = open_queue(disk)
    durable = 0
    for _ in range(chance.randrange(1, 6)):
        append(queue, chance.randrange(1, 20))
        flush(queue, disk)
        durable = queue.end
    append(queue, chance.randrange(1, 30))
    for write in queue.unwritten()[: chance.randrange(0, 4)]:
        disk.write_at(*write)
    disk = disk.crash(chance)
    again = open_queue(disk)
    assert again.end >= durable
    check(again, 0, again.end)
    again.sync_names()
    again.cut_from(durable * 100)
    check(again, 0, durable)
    append(again, 25)
    flush(again, disk)
    check(open_queue(disk.crash(chance)), 0, durable + 25)
