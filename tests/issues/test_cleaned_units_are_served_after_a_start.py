"""A queue began with units of deleted records if its first unit was the last one of its file."""

import pytest

from cometmq.disk import RealDisk
from cometmq.store.queue.consume_queue import ConsumeQueue
from cometmq.store.queue.results import UnitVerdict
from cometmq.store.recovery.manifest import Bounds

UNITS_A_FILE = 10


@pytest.mark.parametrize("first", range(20, 30))
@pytest.mark.parametrize("kept", [30, 35, 40])
def test_the_first_unit_is_the_first_whose_record_is_kept(tmp_path, first, kept):
    queue = ConsumeQueue(tmp_path / "T" / "0", 20 * UNITS_A_FILE, RealDisk())
    for number in range(41):
        queue.append(number * 100, 100, 0)
    RealDisk().write_all(queue.unwritten())
    loaded = ConsumeQueue(tmp_path / "T" / "0", 20 * UNITS_A_FILE, RealDisk())
    loaded.load(lambda *unit: UnitVerdict.GOOD, listed=Bounds(0, first, 41))
    loaded.forget_before(kept * 100)
    assert (loaded.first, loaded.end) == (kept, 41)
