"""Offsets and ranges, compared with plain arithmetic."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as some

from cometmq.errors import BadSetting
from cometmq.protocol.bodies.queues import MessageQueue
from spark.rows import NEEDS

pytest.importorskip("pyarrow", reason=NEEDS)
from cometmq.spark.options import ReadOptions
from cometmq.spark.read.offsets import (
    Range,
    gathered,
    limited,
    of_json,
    of_option,
    partitioned,
    queues_of_option,
    ranges,
    times_of_option,
    to_json,
)

queues = some.builds(
    MessageQueue, some.sampled_from(["a", "b"]), some.sampled_from(["x", "y"]), some.integers(0, 3)
)
offsets = some.dictionaries(queues, some.integers(0, 1000))


@given(offsets)
def test_offsets_round_trip_through_json(found):
    assert of_json(json.loads(json.dumps(to_json(found)))) == found


@given(offsets, offsets, some.integers(1, 500))
def test_limited_offsets_use_the_whole_limit(start, end, records_max):
    end = {queue: max(offset, start.get(queue, 0)) for queue, offset in end.items()}
    total = sum(each.count for each in ranges(start, end))
    found = limited(start, end, records_max)
    given_now = sum(each.count for each in ranges(start, found))
    assert given_now == min(total, records_max)
    assert found.keys() == end.keys()
    assert all(start.get(queue, 0) <= found[queue] <= end[queue] for queue in found)


@given(offsets, offsets, some.integers(0, 40), some.none() | some.integers(1, 100))
def test_partitions_contain_each_message_once(start, end, parts_min, records_max):
    whole = ranges(start, end)
    cut = partitioned(whole, parts_min, records_max)
    wanted = [(each.queue, offset) for each in whole for offset in range(each.start, each.end)]
    assert [(e.queue, offset) for e in cut for offset in range(e.start, e.end)] == wanted
    assert all(each.count > 0 for each in cut)
    assert records_max is None or all(each.count <= records_max for each in cut)
    assert cut == partitioned(ranges(start, end), parts_min, records_max)


@given(offsets, offsets, some.integers(1, 2000))
def test_small_ranges_are_grouped_greedily(start, end, records_max):
    cut = ranges(start, end)
    together = gathered(cut, records_max)
    assert [each for group in together for each in group] == cut
    sizes = [sum(each.count for each in group) for group in together]
    for group, size in zip(together, sizes, strict=True):
        assert size <= records_max or len(group) == 1
    for size, following in zip(sizes, together[1:], strict=False):
        assert size + following[0].count > records_max


def test_recreated_queue_is_read_from_its_beginning():
    queue = MessageQueue("t", "b", 0)
    assert ranges({queue: 100}, {queue: 7}) == [Range(queue, 0, 7)]


@pytest.mark.parametrize(
    "text", ["", "7", "[]", '{"t":5}', '{"t":{"b":{"x":1}}}', '{"t":{"b":{"0":-3}}}', '{"t":[]}']
)
def test_bad_offsets_are_rejected(text):
    with pytest.raises(BadSetting, match="option startingOffsets is"):
        of_option("startingOffsets", text)


@pytest.mark.parametrize("text", ["7", '{"t":{"b":{"0":-1}}}', '{"t":{"b":{"0":-2}}}'])
def test_bad_timestamps_are_rejected(text):
    words = "option endingOffsetsByTimestamp is .* milliseconds .* option endingOffsets$"
    with pytest.raises(BadSetting, match=words):
        times_of_option("endingOffsetsByTimestamp", text)
    with pytest.raises(BadSetting, match=words):
        ReadOptions.of({"nameServer": "a:1", "subscribe": "t", "endingOffsetsByTimestamp": text})
    assert times_of_option("x", '{"t":{"b":{"0":0}}}') == {MessageQueue("t", "b", 0): 0}


@pytest.mark.parametrize("text", ["", "{}", '{"t":{"b":5}}', '{"t":{"b":["0"]}}'])
def test_bad_assignments_are_rejected(text):
    with pytest.raises(BadSetting, match="option assign is"):
        queues_of_option("assign", text)
