"""Queues by topic and id: loaded when first used, listed, flushed, deleted.

What is to hold is in docs/disk.md, sections 2 and 4.
"""

import pytest

from cometmq.disk import RealDisk
from cometmq.errors import BeingDeleted
from cometmq.store.queue.queue_table import QueueTable
from cometmq.store.queue.results import UnitVerdict
from store.rig import UNCLEANED


class CountingDisk(RealDisk):
    def __init__(self):
        super().__init__()
        self.listed = []

    def names(self, folder):
        self.listed.append(folder)
        return super().names(folder)


@pytest.fixture
def opened(tmp_path):
    def open_table(judge=lambda *_: UnitVerdict.GOOD, disk=None, file_size=200):
        return QueueTable(
            tmp_path / "consumequeue", file_size, disk or RealDisk(), judge, UNCLEANED
        )

    return open_table


def flush(table):
    table.write()


def test_a_queue_is_made_once_and_kept(opened):
    table = opened()
    assert list(table.known()) == []
    queue = table.get("T", 3)
    assert table.get("T", 3) is queue
    assert table.get("T", 4) is not queue and table.get("U", 3) is not queue
    assert sorted(table.known()) == [("T", 3), ("T", 4), ("U", 3)]


def test_units_go_under_topic_and_queue_id(opened, tmp_path):
    table = opened(file_size=195)  # rounded up to whole units
    table.get("T", 3).append(1, 2, 3)
    table.get("%RETRY%g", 0)
    some = table.with_unwritten()
    assert some == [(("T", 3), table.get("T", 3))]
    assert [(key, end) for key, _, end, _ in table.unwritten(some)] == [(("T", 3), 1)]
    flush(table)
    assert table.with_unwritten() == []
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files == [tmp_path / "consumequeue" / "T" / "3" / f"{0:020}"]
    assert files[0].stat().st_size == 200


def test_a_queue_is_loaded_when_it_is_first_used(opened):
    table = opened()
    for i in range(5):
        table.get(f"T{i}", 0).append(i, 10, 0)
    flush(table)
    asked = []
    disk = CountingDisk()
    again = opened(lambda *place: asked.append(place) or UnitVerdict.GOOD, disk)
    assert disk.listed == [] and asked == []
    assert again.get("T3", 0).end == 1
    assert asked == [(("T3", 0), 0, 3, 10)]
    assert sorted(again.known()) == [(f"T{i}", 0) for i in range(5)]
    assert len(asked) == 1, "nor does a list load them"


def test_odd_names_are_no_queues(opened, tmp_path):
    table = opened()
    table.get("T", 0).append(0, 1, 0)
    flush(table)
    (tmp_path / "consumequeue" / "T" / "x").mkdir()
    (tmp_path / "consumequeue" / "T" / "-1").mkdir()
    (tmp_path / "consumequeue" / "stray").write_bytes(b"")
    assert list(opened().known()) == [("T", 0)]


def test_a_deleted_topic_is_gone_with_its_files(opened, tmp_path):
    table = opened()
    for topic, queue_id in (("T", 0), ("T", 1), ("U", 0)):
        for _ in range(15):
            table.get(topic, queue_id).append(0, 1, 0)
    flush(table)
    kept = table.get("U", 0)
    table.leave("T")
    assert table.get("T", 0).end == 0, "though its files are there"
    with pytest.raises(BeingDeleted, match="T is being deleted"):
        table.open_to_puts("T", 0)
    paths = table.forget(table.leaving, 100)
    assert table.get("U", 0) is kept is table.open_to_puts("U", 0)
    assert set(paths) == {
        path for path in (tmp_path / "consumequeue" / "T").rglob("*") if path.is_file()
    }
    for path in paths:
        path.unlink()
    table.gone({"T"})
    assert table.open_to_puts("T", 0).end == 0
    assert opened().get("U", 0).end == 15


def test_a_topic_that_never_was_leaves_no_mark(opened):
    """Else anybody's made-up names would fill the list."""
    table = opened()
    table.has_changed = False
    assert table.get("never", 0).end == 0
    table.leave("never")
    assert (table.leaving, table.has_changed) == (frozenset(), False)


def test_what_is_being_written_of_a_topic_that_leaves_is_written_and_listed(opened):
    """Until it is forgotten, its files are all that a crash leaves of it."""
    table = opened()
    table.get("T", 0).append(0, 1, 0)
    some = table.with_unwritten()
    table.leave("T")
    ((key, queue, end, writes),) = table.unwritten(some)
    assert writes
    table.written(key, queue, end)
    assert table.listed([]).queues == {"T": {0: (0, 0)}}
