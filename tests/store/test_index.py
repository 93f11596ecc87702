"""The row of index files: against a list, over restarts, with odd files and a full disk.

What is to hold is in docs/disk.md, section 3.
"""

import errno
import shutil
import sys
import tempfile
from datetime import datetime
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from cometmq.disk import RealDisk
from cometmq.protocol.records.key_hash import key_hash
from cometmq.store.index import index_file
from cometmq.store.index.index import Index
from cometmq.store.index.index_file import HEADER, file_size
from cometmq.store.index.index_slots import chained
from cometmq.testing.clock import ManualClock
from searches import examples
from store.rig import index_keys

NOON_MS = 1_700_000_000_000
SLOTS, ENTRIES = 5, 6  # five entries
EVER = (0, 2**62)
SAFE = 2**62


def asked(index, topic, key, begin_ms, end_ms, count_max):
    """What a query finds, up to so many."""
    found = (offset for offset in index.query(topic, key, begin_ms, end_ms) if offset is not None)
    return list(islice(found, count_max))


class FullDisk(RealDisk):
    """It has room for so many files."""

    def __init__(self, room):
        super().__init__()
        self.room = room

    def create(self, path, size):
        if self.room == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.room -= 1
        return super().create(path, size)


@pytest.fixture
def clock():
    return ManualClock(NOON_MS)


@pytest.fixture
def opened(tmp_path, clock):
    """Open the index of this test's folder; closed at the end."""
    indexes = []

    def open_index(
        *, disk=None, unclean=False, safe_end=2**62, safe_ms=SAFE, odd=None, slots=SLOTS
    ):
        index = Index(tmp_path / "index", slots, ENTRIES, disk or RealDisk(), clock)
        messages = [] if odd is None else odd
        index.load(unclean, safe_end, safe_ms, messages.append)
        indexes.append(index)
        if odd is None:
            assert messages == []
        return index

    yield open_index
    for index in indexes:
        index.close()


def fill(index, count, first=0):
    """One key a message, 100 bytes and 10 ms apart."""
    for number in range(first, first + count):
        index_keys(index, "T", [f"k{number}"], number * 100, NOON_MS + number * 10)
    index.settle()


def names(folder):
    return sorted(path.name for path in (folder / "index").iterdir())


def test_an_index_that_was_never_there(opened, tmp_path):
    index = opened()
    assert asked(index, "T", "a", *EVER, 10) == []
    assert index.end_offset == 0
    index_keys(index, "T", [], 5, NOON_MS)
    index.forget_before(100)
    index.cut(0)
    assert index.dirty_regions() == []
    assert not (tmp_path / "index").exists(), "a message without keys needs no file"


def test_files_are_named_by_the_time_and_roll_when_full(opened, tmp_path, clock):
    index = opened()
    fill(index, 12)
    noon = datetime.fromtimestamp(NOON_MS // 1000).strftime("%Y%m%d%H%M%S")
    assert names(tmp_path) == [noon + "000", noon + "001", noon + "002"]
    assert [file.count for file in index.files] == [6, 6, 3]
    clock.jump(-3_600_000)  # as daylight saving does to local time
    fill(index, 5, first=12)
    assert names(tmp_path)[-1] == noon + "003"
    clock.jump(7_200_123)
    fill(index, 5, first=17)
    assert names(tmp_path)[-1] > noon + "003"
    assert [asked(index, "T", f"k{number}", *EVER, 9) for number in range(22)] == [
        [number * 100] for number in range(22)
    ]


def test_the_keys_of_a_message_may_span_files(opened):
    index = opened()
    fill(index, 4)
    index_keys(index, "T", ["a", "b", "c", "d", "e", "f", "g", "h"], 400, NOON_MS + 40)
    assert [file.room for file in index.files] == [0, 0, 3]
    for key in "abcdefgh":
        assert asked(index, "T", key, *EVER, 9) == [400]
    index_keys(index, "T", ["a", "a"], 500, NOON_MS + 50)
    assert asked(index, "T", "a", *EVER, 9) == [500, 400], "once each"
    assert asked(index, "T", "a", *EVER, 1) == [500]


def test_a_message_before_the_end_is_known(opened):
    index = opened()
    index_keys(index, "T", ["a"], 500, NOON_MS)
    index_keys(index, "T", ["b"], 499, NOON_MS)
    assert [file.count for file in index.files] == [2]
    index_keys(index, "T", ["a"], 500, NOON_MS)
    assert [file.count for file in index.files] == [3], "a crash may have cut its keys short"
    assert asked(index, "T", "a", *EVER, 9) == [500], "and it is found once"


def test_topics_do_not_mix(opened):
    index = opened()
    index_keys(index, "T", ["a"], 0, NOON_MS)
    index_keys(index, "U", ["a"], 100, NOON_MS)
    assert asked(index, "T", "a", *EVER, 9) == [0]
    assert asked(index, "U", "a", *EVER, 9) == [100]


def test_a_full_disk_changes_nothing_and_can_be_tried_again(opened, tmp_path):
    disk = FullDisk(0)
    index = opened(disk=disk)
    with pytest.raises(OSError, match="No space"):
        fill(index, 1)
    assert index.files == ()
    disk.room = 1
    fill(index, 4)
    before = bytes(index.files[0].region.memory)
    for room, keys in ((0, ["a", "b"]), (1, list("abcdefgh"))):
        disk.room = room
        with pytest.raises(OSError, match="No space"):
            index_keys(index, "T", keys, 400, NOON_MS)
        assert [bytes(file.region.memory) for file in index.files] == [before]
        assert index.end_offset == 300
        assert len(names(tmp_path)) == 1, "nor is a file left that was made for it"
    fill(index, 1, first=4)
    disk.room = 9
    index_keys(index, "T", list("abcdefgh"), 500, NOON_MS)
    assert asked(index, "T", "a", *EVER, 9) == asked(index, "T", "h", *EVER, 9) == [500]


def test_the_next_file_is_made_ahead(opened, tmp_path):
    disk = FullDisk(2)
    index = opened(disk=disk)
    index.begin_next()
    fill(index, 4)
    index.begin_next()
    assert disk.room == 1, "not yet"
    fill(index, 1, first=4)
    index.begin_next()
    index.begin_next()
    fill(index, 1, first=5)
    assert disk.room == 0 and len(index.files) == 2
    fill(index, 4, first=6)
    index.begin_next()
    with pytest.raises(OSError, match="No space"):
        fill(index, 1, first=10)
    disk.room = 1
    fill(index, 1, first=10)
    assert len(index.files) == 3


def test_a_file_made_ahead_and_not_used_is_removed(opened, tmp_path):
    index = opened()
    fill(index, 5)
    index.begin_next()
    index.close()
    assert len(names(tmp_path)) == 1


def test_what_is_dirty(opened):
    index = opened()
    assert index.dirty_regions() == []
    fill(index, 7)
    assert index.dirty_regions() == [file.region for file in index.files]
    assert index.last_stored_ms >= NOON_MS + 60
    safe_ms = index.last_stored_ms
    assert index.dirty_regions() == []
    fill(index, 1, first=7)
    assert index.files[-1].end_ms > safe_ms
    assert index.last_stored_ms == safe_ms, "until it is asked what to sync"
    assert index.dirty_regions() == [index.files[-1].region]
    assert index.last_stored_ms > safe_ms
    for region in index.dirty_regions():
        region.sync()
    safe_ms = index.last_stored_ms
    for number in range(8, 11):  # into a new file
        index_keys(index, "T", ["a"], number * 100, safe_ms - 5)
    assert len(index.files) == 3 and index.files[-1].end_ms > safe_ms


def test_after_a_clean_stop_all_is_there(opened):
    index = opened()
    fill(index, 12)
    index.dirty_regions()
    safe_ms = index.last_stored_ms
    index.close()
    index = opened(safe_ms=safe_ms)
    assert index.end_offset == 1100 and index.last_stored_ms == safe_ms
    assert index.dirty_regions() == []
    fill(index, 12)  # known, but for the last
    fill(index, 1, first=12)
    assert [file.count for file in index.files] == [6, 6, 5]
    assert [asked(index, "T", f"k{number}", *EVER, 9) for number in range(13)] == [
        [number * 100] for number in range(13)
    ]


def test_after_an_unclean_stop_what_may_be_torn_is_made_again(opened):
    index = opened(safe_ms=0)
    fill(index, 7)
    index.dirty_regions()
    safe_ms = index.last_stored_ms
    assert safe_ms == NOON_MS + 60
    index_keys(index, "T", ["k7"], 700, safe_ms)  # the same millisecond, and not synced
    index.close()
    odd = []
    index = opened(unclean=True, safe_end=500, safe_ms=safe_ms, odd=odd)
    assert len(index.files) == 1 and len(odd) == 1 and "nothing that is surely whole" in odd[0]
    assert index.end_offset == 400
    assert index.dirty_regions() == [index.files[0].region], "it may be in memory only"
    fill(index, 8)
    assert asked(index, "T", "k7", *EVER, 9) == [700]
    index.dirty_regions()
    safe_ms = index.last_stored_ms
    index.close()
    assert len(opened(unclean=True, safe_ms=safe_ms).files) == 2, "all was synced"


def test_slots_ahead_of_the_header_are_made_again(opened):
    index = opened(safe_ms=0)
    fill(index, 1)
    memory = index.files[0].region.memory
    old_header = bytes(memory[: HEADER.size])
    old_slots = bytes(memory[HEADER.size : HEADER.size + 4 * SLOTS])
    fill(index, 1, first=1)
    memory[: HEADER.size] = old_header
    index.close()
    index = opened(unclean=True)
    memory = index.files[0].region.memory
    assert bytes(memory[HEADER.size : HEADER.size + 4 * SLOTS]) == old_slots
    assert index.end_offset == 0
    assert asked(index, "T", "k1", *EVER, 9) == []


@pytest.mark.parametrize("with_numpy", [True, False])
def test_what_was_put_after_the_checkpoint_is_cut_and_put_again(opened, monkeypatch, with_numpy):
    if not with_numpy:
        monkeypatch.setitem(sys.modules, "numpy", None)
    index = opened(safe_ms=0)
    fill(index, 2)
    index_keys(index, "T", ["young"], 1000, NOON_MS + 20_000)
    whole = bytes(index.files[0].region.memory)
    index.close()
    index = opened(unclean=True, safe_end=200)
    assert (index.end_offset, index.files[0].count) == (100, 3)
    assert asked(index, "T", "k1", *EVER, 9) == [100]
    assert asked(index, "T", "young", *EVER, 9) == []
    fill(index, 1)  # known already: nothing happens
    index_keys(index, "T", ["young"], 1000, NOON_MS + 20_000)
    assert bytes(index.files[0].region.memory) == whole


def test_a_file_of_zeros_was_never_in_use(opened, tmp_path):
    index = opened()
    fill(index, 3)
    index.close()
    RealDisk().create(tmp_path / "index" / "20991231235959999", file_size(SLOTS, ENTRIES)).close()
    odd = []
    index = opened(odd=odd)
    assert len(index.files) == 1 and "is empty; removed" in odd[0]
    fill(index, 6, first=3)
    assert names(tmp_path)[-1] == "21000101000000000", "names ascend, whatever there was"


@pytest.mark.parametrize("damage", ["size", "nothing", "header", "slots"])
def test_odd_files_go_with_those_after_them(opened, tmp_path, damage):
    index = opened()
    fill(index, 12)
    index.close()
    second = tmp_path / "index" / names(tmp_path)[1]
    slots = SLOTS
    match damage:
        case "size":
            second.write_bytes(second.read_bytes()[:-1])
        case "nothing":
            second.write_bytes(b"")
        case "header":
            second.write_bytes(b"\xff" * 40 + second.read_bytes()[40:])
        case "slots":
            slots = SLOTS + 1  # the setting changed: no file has the size
    odd = []
    index = opened(odd=odd, slots=slots)
    left = 0 if damage == "slots" else 1
    assert len(index.files) == left == len(names(tmp_path))
    assert len(odd) == 3 - left
    assert index.end_offset == (400 if left else 0)
    fill(index, 12)
    assert [asked(index, "T", f"k{number}", *EVER, 9) for number in range(12)] == [
        [number * 100] for number in range(12)
    ]


def test_strangers_are_left_alone_and_unfinished_files_are_not(opened, tmp_path):
    folder = tmp_path / "index"
    folder.mkdir()
    strangers = ["99999999999999999", "99991231235959999", "README", "2023", "20230101000000000x"]
    for name in [*strangers, "20230101000000000.tmp"]:
        (folder / name).write_bytes(b"?")
    (folder / "20230101000000001").mkdir()
    odd = []
    index = opened(odd=odd)
    assert names(tmp_path) == sorted([*strangers, "20230101000000001"])
    assert len(odd) == 7 and sum("left alone" in line for line in odd) == 5
    assert sum("cannot be removed" in line for line in odd) == 1
    fill(index, 1)
    assert asked(index, "T", "k0", *EVER, 9) == [0]


def test_files_of_records_that_left_the_log_are_forgotten(opened, tmp_path):
    index = opened()
    fill(index, 10)
    assert index.forget_before(400) == []
    assert len(index.files) == 2, "its last message is kept"
    (gone,) = index.forget_before(401)
    assert len(index.files) == 1 and gone.path.name == names(tmp_path)[0]
    assert index.forget_before(100_000) == []
    assert len(index.files) == 1, "the newest stays"


def test_what_the_log_lost_is_cut(opened, tmp_path):
    index = opened()
    fill(index, 12)
    index.cut(1101)
    assert len(index.files) == 3
    index.cut(700)
    assert len(index.files) == 2 == len(names(tmp_path)) and index.end_offset == 600
    for number in range(7, 10):
        index_keys(index, "T", [f"new{number}"], number * 100 + 1, NOON_MS + 500)
    assert asked(index, "T", "new7", *EVER, 9) == [701]
    assert asked(index, "T", "k7", *EVER, 9) == []
    assert asked(index, "T", "k6", *EVER, 9) == [600]


def test_a_damaged_checkpoint_does_not_spoil_the_times(opened):
    index = opened(unclean=True, safe_ms=SAFE)
    fill(index, 1, first=1)
    assert index.files[0].end_ms <= NOON_MS + 10


# "Aa" and "BB" have one hash; the others are a unique key, a long one and one that is not ASCII.
KEYS = ["Aa", "BB", "7F00000112345C2A9B6E0A1B2C3D0001", "order-1", "長い" * 70, "x" * 200]
TOPICS = ["T", "U"]
BACK_MS_MAX = 55_000


class IndexModel(RuleBasedStateMachine):
    """A list of messages; `start` is where the log starts."""

    def __init__(self):
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.messages = []  # topic, keys, physical offset, stored ms
        self.start = self.next_offset = 0
        self.latest_ms = NOON_MS
        self.checkpoint_ms = 0
        self.checkpoint_end = 0
        self.odd = []

    @initialize(slots=st.integers(1, 8), entries=st.integers(2, 12))
    def begin(self, slots, entries):
        self.shape = slots, entries
        self.open(unclean=False)

    def open(self, unclean):
        clock = ManualClock(self.latest_ms)
        self.index = Index(self.root / "index", *self.shape, RealDisk(), clock)
        self.index.load(unclean, self.checkpoint_end, self.checkpoint_ms, self.odd.append)

    def dispatch_again(self):
        """What recovery does: from the last message that the index knows."""
        for message in self.messages:
            if message[2] >= self.index.end_offset:
                index_keys(self.index, *message)

    @rule(
        topic=st.sampled_from(TOPICS),
        keys=st.lists(st.sampled_from(KEYS), max_size=5),
        later_ms=st.sampled_from([0, 0, 1, 700, 30_000, 3_600_000]),
        back_ms=st.sampled_from([0, 0, 0, 1, BACK_MS_MAX]),
    )
    def put(self, topic, keys, later_ms, back_ms):
        self.latest_ms += later_ms
        message = topic, keys, self.next_offset, self.latest_ms - back_ms
        self.messages.append(message)
        self.next_offset += 100
        index_keys(self.index, *message)

    @rule()
    def put_again(self):
        for message in self.messages:
            index_keys(self.index, *message)

    @rule()
    def flush(self):
        for region in self.index.dirty_regions():
            region.sync()
        self.checkpoint_ms = self.index.last_stored_ms
        self.checkpoint_end = self.index.end_offset + 1

    @rule(share=st.floats(0, 1))
    def forget(self, share):
        self.start = max(self.start, int(self.next_offset * share))
        for region in self.index.forget_before(self.start):
            region.close()
            region.path.unlink()
        self.messages = [message for message in self.messages if message[2] >= self.start]

    @rule()
    def restart(self):
        self.flush()
        self.index.close()
        self.open(unclean=False)
        assert self.odd == []

    @rule()
    def crash(self):
        self.index.close()
        self.open(unclean=True)
        self.odd.clear()
        self.dispatch_again()

    @precondition(lambda self: self.messages)
    @rule(lost=st.integers(1, 8))
    def lose_the_end_of_the_log(self, lost):
        self.next_offset = self.messages[-lost:][0][2]
        self.messages = self.messages[:-lost]
        self.index.close()
        self.open(unclean=True)
        self.odd.clear()
        self.index.cut(self.next_offset)
        self.dispatch_again()

    @rule(
        topic=st.sampled_from(TOPICS),
        key=st.sampled_from(KEYS),
        ago_ms=st.integers(0, 4_000_000),
        long_ms=st.integers(0, 100_000),
        count_max=st.integers(0, 12),
    )
    def query(self, topic, key, ago_ms, long_ms, count_max):
        begin_ms = self.latest_ms - ago_ms
        times = begin_ms, begin_ms + long_ms
        found = asked(self.index, topic, key, *times, 10**6)
        self.check(topic, key, times, found)
        assert asked(self.index, topic, key, *times, count_max) == found[:count_max]

    @invariant()
    def everything_is_found(self):
        for topic in TOPICS:
            for key in KEYS:
                self.check(topic, key, EVER, asked(self.index, topic, key, *EVER, 10**6))

    def check(self, topic, key, times, found):
        assert found == sorted(set(found), reverse=True), "newest first, once each"
        wanted, allowed = set(), set()
        for other, keys, physical_offset, stored_ms in self.messages:
            if other == topic and key in keys and times[0] <= stored_ms <= times[1]:
                wanted.add(physical_offset)
            if key_hash(topic, key) in {key_hash(other, one) for one in keys}:
                allowed.add(physical_offset)
        kept = {physical_offset for physical_offset in found if physical_offset >= self.start}
        assert wanted <= kept <= allowed

    def teardown(self):
        if hasattr(self, "index"):
            self.index.close()
        shutil.rmtree(self.root)


TestIndexModel = IndexModel.TestCase
TestIndexModel.settings = settings(
    max_examples=examples(100), stateful_step_count=40, deadline=None
)


@pytest.mark.parametrize("has_numpy", [True, False], ids=["numpy", "plain"])
def test_keys_are_held_until_somebody_looks_or_there_are_many(
    tmp_path, clock, monkeypatch, has_numpy
):
    if has_numpy:
        pytest.importorskip("numpy")
    else:
        monkeypatch.setitem(sys.modules, "numpy", None)
    monkeypatch.setattr("cometmq.store.index.index.HELD_MAX", 4)
    index = Index(tmp_path / "index", SLOTS, 100, RealDisk(), clock)
    index.load(False, SAFE, SAFE, lambda odd: None)
    index_keys(index, "T", ["a"], 0, NOON_MS)  # makes the file
    (file,) = index.files
    counts = []
    for number in range(1, 7):
        index_keys(index, "T", [f"k{number}", "b"], number * 100, NOON_MS)
        counts.append(file.count)
        assert index.end_offset == number * 100
    assert counts == [2, 2, 2, 10, 10, 10]
    assert asked(index, "T", "b", *EVER, 9) == [600, 500, 400, 300, 200, 100]
    index.reserve(3)
    index.add(["T", "T"], [["c"], ["c", "d"]], [700, 800], NOON_MS, 3)
    assert index.dirty_regions() == [file.region]
    assert file.count == 17
    index_keys(index, "T", ["e"], 900, NOON_MS)
    index.cut(900)
    assert asked(index, "T", "e", *EVER, 9) == []
    assert asked(index, "T", "c", *EVER, 9) == [800, 700]
    index.close()


def test_a_kill_among_the_slots_leaves_an_end_that_no_checkpoint_said(opened, monkeypatch):
    """The original keeps a file whose end is not later, and takes its newest slots for empty."""
    pytest.importorskip("numpy")
    index = opened()
    index_keys(index, "T", ["old"], 0, NOON_MS)
    index.dirty_regions()
    for number in (1, 2, 3):
        index_keys(index, "T", [f"k{number}"], number * 100, NOON_MS)
    path = index._files[0].region.path

    class Killed(BaseException):
        pass

    def link_and_die(*arguments):
        chained(*arguments)
        raise Killed

    monkeypatch.setattr(index_file, "chained", link_and_die)
    with pytest.raises(Killed):
        index.settle()
    _, end_ms, *_ = HEADER.unpack_from(path.read_bytes())
    assert end_ms > index.last_stored_ms


def test_a_query_looks_no_further_than_it_is_asked_to(opened, monkeypatch):
    index = opened()
    for number in range(14):
        index_keys(index, "T", ["k"], number * 100, NOON_MS)
    oldest, *_, newest = index.files
    looked = []
    query = index_file.IndexFile.query

    def watched(file, *wanted):
        looked.append(file)
        return query(file, *wanted)

    monkeypatch.setattr(index_file.IndexFile, "query", watched)
    assert asked(index, "T", "k", *EVER, 2) == [1300, 1200]
    assert looked == [newest]
    assert asked(index, "T", "k", *EVER, 14)[-1] == 0
    assert looked[-1] is oldest
