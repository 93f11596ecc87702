"""Queue offsets in Spark's JSON form, `{"topic":{"broker":{"0":23}}}`, and ranges between them.

All functions are deterministic: a batch that Spark runs again has the same partitions with the same
messages.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cometmq.errors import BadSetting
from cometmq.protocol.bodies.queues import MessageQueue

EARLIEST, LATEST = -2, -1  # special offsets in the JSON of an option
Offsets = dict[MessageQueue, int]


def to_json(offsets: Mapping[MessageQueue, int]) -> dict[str, Any]:
    """Return the form that Spark writes to a checkpoint."""
    tree: dict[str, Any] = {}
    for queue in sorted(offsets):
        brokers = tree.setdefault(queue.topic, {})
        brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = offsets[queue]
    return tree


def of_json(tree: Mapping[str, Any]) -> Offsets:
    """Parse the form that Spark reads from a checkpoint."""
    return {
        MessageQueue(topic, broker, int(queue_id)): offset
        for topic, brokers in tree.items()
        for broker, queues in brokers.items()
        for queue_id, offset in queues.items()
    }


def of_option(name: str, text: str) -> Offsets:
    """Parse the JSON of an option; BadSetting names the option if it is invalid."""
    found = _numbers_of_option(text)
    if found is None or min(found.values(), default=0) < EARLIEST:
        raise BadSetting(
            f"option {name} is {text[:200]!r}: expected JSON such as"
            ' {"topic":{"broker":{"0":23}}}, where -2 is the earliest and -1 the latest offset'
        )
    return found


def times_of_option(name: str, text: str) -> Offsets:
    """Parse the JSON of an option with a time in ms for each queue, without special numbers."""
    found = _numbers_of_option(text)
    if found is None or min(found.values(), default=0) < 0:
        raise BadSetting(
            f"option {name} is {text[:200]!r}: expected JSON such as"
            ' {"topic":{"broker":{"0":1767225600000}}}, milliseconds since 1970;'
            f" for earliest and latest use the option {name.removesuffix('ByTimestamp')}"
        )
    return found


def _numbers_of_option(text: str) -> Offsets | None:
    try:
        found = of_json(json.loads(text))
    except (ValueError, AttributeError, TypeError):
        return None
    return found if all(isinstance(number, int) for number in found.values()) else None


def queues_of_option(name: str, text: str) -> list[MessageQueue]:
    """Parse the JSON of `assign`: `{"topic":{"broker":[0,1]}}`."""
    try:
        found = [
            MessageQueue(topic, broker, queue_id)
            for topic, brokers in json.loads(text).items()
            for broker, ids in brokers.items()
            for queue_id in ids
        ]
        if found and all(isinstance(each.queue_id, int) for each in found):
            return sorted(found)
    except (ValueError, AttributeError, TypeError):
        pass
    raise BadSetting(
        f'option {name} is {text[:200]!r}: expected JSON such as {{"topic":{{"broker":[0,1]}}}}'
    )


@dataclass(frozen=True, slots=True)
class Range:
    """Messages of one queue from `start` up to, but not including, `end`."""

    queue: MessageQueue
    start: int
    end: int

    @property
    def count(self) -> int:
        """Return the number of offsets."""
        return self.end - self.start

    def split(self, parts: int) -> Iterator["Range"]:
        """Split into that many parts of about equal size; fewer if a part would be empty."""
        parts = max(1, min(parts, self.count))
        for part in range(parts):
            start = self.start + self.count * part // parts
            end = self.start + self.count * (part + 1) // parts
            yield Range(self.queue, start, end)

    def __str__(self) -> str:
        queue = self.queue
        return f"{queue.topic}/{queue.broker_name}/{queue.queue_id} {self.start} to {self.end}"


def ranges(start: Offsets, end: Offsets) -> list[Range]:
    """Return the ranges from start to end. A queue that ends before its start begins at 0.

    That happens when a topic was deleted and created again.
    """
    found = []
    for queue in sorted(end):
        begin = start.get(queue, 0)
        found.append(Range(queue, begin if begin <= end[queue] else 0, end[queue]))
    return [each for each in found if each.count > 0]


def partitioned(
    found: Iterable[Range], parts_min: int = 0, records_max: int | None = None
) -> list[Range]:
    """Split ranges until there are about `parts_min` and none exceeds `records_max`."""
    found = list(found)
    total = sum(each.count for each in found)
    cut: list[Range] = []
    for each in found:
        parts = -(-each.count // records_max) if records_max else 1
        if parts_min > len(found):
            parts = max(parts, round(each.count * parts_min / total))
        cut += each.split(parts)
    return cut


def gathered(cut: Iterable[Range], records_max: int) -> list[tuple[Range, ...]]:
    """Group neighboring ranges into tasks of at most `records_max` messages."""
    found: list[tuple[Range, ...]] = []
    room = 0
    for each in cut:
        room -= each.count
        if found and room >= 0:
            found[-1] = (*found[-1], each)
        else:
            found.append((each,))
            room = records_max - each.count
    return found


def limited(start: Offsets, end: Offsets, records_max: int) -> Offsets:
    """Move the end back so that `records_max` messages remain, in proportion to each backlog."""
    waiting = ranges(start, end)
    total = sum(each.count for each in waiting)
    if total <= records_max:
        return end
    found, given = dict(end), 0
    for each in waiting:
        share = each.count * records_max // total
        found[each.queue] = each.start + share
        given += share
    for each in waiting:  # the rest of rounding: one each, so that every queue advances
        if given < records_max and found[each.queue] < each.end:
            found[each.queue] += 1
            given += 1
    return found
