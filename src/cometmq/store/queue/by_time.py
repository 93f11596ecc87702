"""Queue offsets by time. A unit holds no time, so the records are looked at, by bisection.

Clocks step back, so the times of a queue are only nearly sorted and the answer is "close", as it is
in Apache RocketMQ. As there, it is the message *nearest* to the time, the earlier one of two.
"""

from cometmq.store.queue.consume_queue import UNIT, ConsumeQueue
from cometmq.store.queue.reader import Reader


def offset_by_time(reader: Reader, queue: ConsumeQueue, wanted_ms: int) -> int:
    """The queue offset of the message that was stored nearest to the time; 0 for an empty queue."""
    low, high = queue.first, queue.end
    while low < high:
        middle = (low + high) // 2
        if _stored_ms(reader, queue, middle) < wanted_ms:
            low = middle + 1
        else:
            high = middle
    if low == queue.first or queue.end == queue.first:
        return low
    before_ms = _stored_ms(reader, queue, low - 1)
    if low == queue.end:
        return low - 1
    after_ms = _stored_ms(reader, queue, low)
    return low if wanted_ms - before_ms > after_ms - wanted_ms else low - 1


def earliest_ms(reader: Reader, queue: ConsumeQueue) -> int:
    """The store time of the oldest message of a queue; -1 if the queue is empty."""
    return _stored_ms(reader, queue, queue.first) if queue.end > queue.first else -1


def _stored_ms(reader: Reader, queue: ConsumeQueue, queue_offset: int) -> int:
    """Of a message; -1, the oldest of all, if its record is gone or damaged."""
    units = reader.units(queue, queue_offset, 1)
    record = reader.record_or_none(UNIT.unpack(units)[0]) if units else None
    return record.stored_ms if record is not None else -1
