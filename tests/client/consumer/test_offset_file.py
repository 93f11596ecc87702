"""Local offsets: Java's file, its .bak, and what a crash leaves."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.client.consumer.shared.offset_file import OffsetFile, offsets_path
from cometmq.disk import RealDisk
from cometmq.errors import BadName, BadSetting, BadState
from cometmq.protocol.bodies.queues import MessageQueue
from crash.shadow_disk import ShadowDisk

ONE, TWO = MessageQueue("orders", "broker-a", 0), MessageQueue("orders", "broker-a", 1)
PATH = offsets_path(Path("/home/.rocketmq_offsets"), "10.0.0.1@DEFAULT", "group")
# As the Java client writes it: pretty, with objects as keys.
JAVAS = b"""{
\t"offsetTable":{{
\t\t"brokerName":"broker-a",
\t\t"queueId":0,
\t\t"topic":"orders"
\t}:41,{
\t\t"brokerName":"broker-a",
\t\t"queueId":1,
\t\t"topic":"orders"
\t}:7
\t}
}"""


def loaded(disk, path=PATH):
    file = OffsetFile(disk, path)
    file.load()
    return file


def saved(disk, **offsets):
    file = loaded(disk)
    for queue, offset in zip((ONE, TWO), offsets.values(), strict=False):
        file.advance(queue, offset)
    file.save([ONE, TWO])
    return file


def test_place():
    assert str(PATH) == "/home/.rocketmq_offsets/10.0.0.1@DEFAULT/group/offsets.json"


@pytest.mark.parametrize("client_id", ["", "..", "a/b", "..\\x", "a\0b"])
def test_a_client_id_cannot_leave_the_folder(client_id):
    with pytest.raises(BadSetting, match="no folder name"):
        offsets_path(Path("/home"), client_id, "group")
    with pytest.raises(BadName):
        offsets_path(Path("/home"), "client", "../group")


def test_reads_what_java_wrote():
    disk = ShadowDisk()
    disk.replace(PATH, JAVAS)
    file = loaded(disk)
    assert (file.get(ONE), file.get(TWO)) == (41, 7)


def test_what_is_saved_is_there_again():
    disk = ShadowDisk()
    assert loaded(disk).get(ONE) is None
    saved(disk, one=5, two=6)
    again = loaded(disk)
    assert (again.get(ONE), again.get(TWO)) == (5, 6)
    assert disk.read(PATH).startswith(b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,')


def test_only_up():
    file = loaded(ShadowDisk())
    file.advance(ONE, 5)
    file.advance(ONE, 3, only_up=True)
    assert file.get(ONE) == 5
    file.advance(ONE, 3)
    assert file.get(ONE) == 3


def test_queues_that_are_not_named_stay_as_they_are_on_disk():
    disk = ShadowDisk()
    file = saved(disk, one=5, two=6)
    file.advance(ONE, 50)
    file.advance(TWO, 60)
    file.save([TWO])
    again = loaded(disk)
    assert (again.get(ONE), again.get(TWO)) == (5, 60)


def test_nothing_new_is_not_written():
    disk = ShadowDisk()
    file = saved(disk, one=5)
    steps = disk.steps
    file.save([ONE, TWO])
    assert disk.steps == steps


def test_backup_holds_the_content_before():
    disk = ShadowDisk()
    saved(disk, one=5)
    saved(disk, one=6)
    disk.replace(PATH, b'{"offsetTable":{{"brokerN')
    file = loaded(disk)
    assert file.get(ONE) == 5
    # The damaged one must not take the place of the good one.
    file.advance(ONE, 9)
    file.save([ONE])
    disk.replace(PATH, b"")
    assert loaded(disk).get(ONE) == 5


def test_both_damaged_is_said():
    disk = ShadowDisk()
    for path in (PATH, PATH.with_name("offsets.json.bak")):
        disk.replace(path, b"{]")
    with pytest.raises(BadState, match="repair one of them"):
        loaded(disk)


def test_a_write_that_fails_is_made_good_by_the_next(monkeypatch):
    disk = ShadowDisk()
    file = saved(disk, one=5)
    file.advance(ONE, 6)

    def full(path, content):
        raise OSError(28, "no space left")

    with monkeypatch.context() as broken, pytest.raises(OSError, match="no space"):
        broken.setattr(disk, "replace", full)
        file.save([ONE])
    assert loaded(disk).get(ONE) == 5
    file.save([ONE])
    assert loaded(disk).get(ONE) == 6


@given(st.dictionaries(
    st.builds(MessageQueue, st.text(max_size=9), st.text(max_size=9), st.integers(0, 2**31 - 1)),
    st.integers(0, 2**63 - 1), max_size=6,
))  # fmt: skip
def test_any_queue_comes_back(table):
    disk = ShadowDisk()
    file = loaded(disk)
    for queue, offset in table.items():
        file.advance(queue, offset)
    file.save(table)
    again = loaded(disk)
    assert {queue: again.get(queue) for queue in table} == table


def test_on_a_real_disk(tmp_path):
    path = offsets_path(tmp_path, "10.0.0.1@x", "group")
    file = loaded(RealDisk(), path)
    file.advance(ONE, 5)
    file.save([ONE])
    assert loaded(RealDisk(), path).get(ONE) == 5
