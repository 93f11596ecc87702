"""A state file and its .bak: at every moment one of them can be read.

What is to hold is in docs/disk.md, section 5.
"""

from pathlib import Path
from random import Random

import pytest

from cometmq.disk import RealDisk
from cometmq.errors import BadState, Malformed
from cometmq.store.state_file import StateFile
from crash.shadow_disk import ShadowDisk


class Killed(BaseException):
    """The process ended here."""


class MortalDisk(RealDisk):
    """Ends the process at the n-th replacement, before it is made."""

    def __init__(self, lives):
        super().__init__()
        self.lives = lives

    def replace(self, path, content):
        if self.lives == 0:
            raise Killed
        self.lives -= 1
        super().replace(path, content)


def parse(content):
    """A table is good if it ends with a full stop."""
    if not content.endswith(b"."):
        raise Malformed("no full stop")
    return content


@pytest.fixture
def path(tmp_path):
    return tmp_path / "config" / "topics.json"


def opened(path, disk=None):
    return StateFile(disk or RealDisk(), path)


def contents(path):
    """Of the folder, by name."""
    return {file.name: file.read_bytes() for file in path.parent.iterdir()}


def test_nothing_was_written_yet(path):
    assert opened(path).read(parse) is None
    assert not path.parent.exists(), "reading makes no folder"


def test_the_last_version_is_kept_beside_it(path):
    state = opened(path)
    state.write(b"one.")
    assert contents(path) == {"topics.json": b"one."}
    state.write(b"two.")
    state.write(b"two.")
    assert contents(path) == {"topics.json": b"two.", "topics.json.bak": b"one."}
    assert state.read(parse) == opened(path).read(parse) == b"two."


@pytest.mark.parametrize("damage", [b"", b"thr", b"\0\0\0\0"])
def test_a_damaged_file_is_read_from_its_bak(path, damage):
    state = opened(path)
    state.write(b"one.")
    state.write(b"two.")
    path.write_bytes(damage)
    assert opened(path).read(parse) == b"one."
    path.unlink()
    assert opened(path).read(parse) == b"one."


def test_two_damaged_files_are_refused_by_name(path):
    path.parent.mkdir()
    path.write_bytes(b"x")
    with pytest.raises(BadState, match=r"topics\.json"):
        opened(path).read(parse)
    path.with_name("topics.json.bak").write_bytes(b"")
    with pytest.raises(BadState, match=r"topics\.json is damaged.* and .*\.bak is damaged"):
        opened(path).read(parse)
    assert path.read_bytes() == b"x", "a person may still repair it"


@pytest.mark.parametrize("lives", [0, 1, 2])
def test_a_kill_between_the_two_writes_loses_nothing(path, lives):
    opened(path).write(b"one.")
    opened(path).write(b"two.")
    try:
        opened(path, MortalDisk(lives)).write(b"three.")
    except Killed:
        assert opened(path).read(parse) == b"two."
    else:
        assert opened(path).read(parse) == b"three."
        assert lives == 2
    path.write_bytes(b"damaged")
    assert opened(path).read(parse) in (b"one.", b"two.")


@pytest.mark.parametrize("damage", [b"", b"dam", b"\0" * 8])
@pytest.mark.parametrize("lives", [0, 1, 2])
def test_a_damaged_file_never_takes_the_place_of_a_good_bak(path, damage, lives):
    opened(path).write(b"one.")
    opened(path).write(b"two.")
    path.write_bytes(damage)
    state = opened(path, MortalDisk(lives))
    assert state.read(parse) == b"one."
    try:
        state.write(b"three.")
    except Killed:
        assert opened(path).read(parse) == b"one."
    else:
        assert opened(path).read(parse) == b"three."
    assert path.with_name("topics.json.bak").read_bytes() == b"one."


def test_after_a_repair_versions_are_kept_again(path):
    opened(path).write(b"one.")
    opened(path).write(b"two.")
    path.write_bytes(b"damaged")
    state = opened(path)
    state.read(parse)
    for content in (b"three.", b"four."):
        state.write(content)
    assert contents(path) == {"topics.json": b"four.", "topics.json.bak": b"three."}


def test_a_full_disk_leaves_the_old_content(path, monkeypatch):
    state = opened(path)
    state.write(b"one.")

    def full(descriptor, data, offset):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.pwrite", full)
    with pytest.raises(OSError, match="No space"):
        state.write(b"two.")
    monkeypatch.undo()
    assert contents(path) == {"topics.json": b"one."}, "nor is a temp file left"
    assert opened(path).read(parse) == b"one."


def test_what_is_read_after_a_kill_survives_a_power_cut():
    """Killed between a rename and the sync of its folder, it left a name in memory alone."""
    path, disk = Path("/store/config/topics.json"), ShadowDisk()
    StateFile(disk, path).write(b"old.")
    disk.before_step = images_of(disk, images := [])
    StateFile(disk, path).write(b"new.")
    seen = set()
    for killed in images:
        found = StateFile(killed, path).read(parse)
        cuts = [killed.crash(Random(seed)) for seed in range(20)]
        assert {StateFile(cut, path).read(parse) for cut in cuts} == {found}
        seen.add(found)
    assert seen == {b"old.", b"new."}


def images_of(disk, images):
    return lambda: images.append(disk.kill())
