"""The extension of a consume queue: units, addresses, files, and Apache's opinion of them.

What is to hold is in docs/disk.md, section 2.
"""

import json
import random
import struct

import pytest

from cometmq.disk import RealDisk
from cometmq.store.queue.queue_extension import Extension, QueueExtension, is_address
from peers.driver import run_java

FILE_SIZE = 256
BASE = -(2**63)
BITS = bytes(range(14))  # of the default settings: a unit has 34 bytes, a file 7 units


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "T" / "0"


@pytest.fixture
def extension(folder):
    return QueueExtension(folder, FILE_SIZE, RealDisk())


def flush(extension):
    disk, end = RealDisk(), extension.end
    for write in extension.unwritten():
        disk.write_at(*write)
    extension.written(end)


def reopened(folder, last_address, file_size=FILE_SIZE):
    extension = QueueExtension(folder, file_size, RealDisk())
    extension.load(last_address)
    return extension


def fill(extension, count, start=0):
    """Units that differ from one another; their addresses and what they say."""
    return {
        extension.append(i, i * 1000, BITS[: i % 15]): Extension(i, i * 1000, BITS[: i % 15])
        for i in range(start, start + count)
    }


def test_layout(extension, folder):
    assert extension.append(-7, 1_700_000_000_000, BITS) == BASE
    assert extension.append(8, 9, b"") == BASE + 34
    flush(extension)
    data = (folder / f"{0:020}").read_bytes()
    assert len(data) == FILE_SIZE
    assert data[:34] == struct.pack(">hqqh14s", 34, -7, 1_700_000_000_000, 14, BITS)
    assert data[34:54] == struct.pack(">hqqh", 20, 8, 9, 0)
    assert not any(data[54:])


def test_a_unit_that_does_not_fit_begins_the_next_file(extension, folder):
    addresses = [extension.append(i, i, BITS) for i in range(8)]
    assert addresses == [BASE + 34 * i for i in range(7)] + [BASE + FILE_SIZE]
    flush(extension)
    assert (folder / f"{0:020}").read_bytes()[238:] == b"\xff\xff" + bytes(16)
    assert (folder / f"{FILE_SIZE:020}").read_bytes()[:2] == b"\x00\x22"


def test_four_bytes_are_left_behind_the_last_unit(extension):
    """252 of 256 bytes may be used."""
    extension.append(0, 0, bytes(252 - 20 - 34))
    assert extension.append(1, 0, BITS) == BASE + 218
    assert extension.append(2, 0, b"") == BASE + FILE_SIZE
    extension.append(0, 0, bytes(252 - 20 - 34))
    assert extension.append(1, 0, BITS + b"x") == BASE + 2 * FILE_SIZE


def test_units_are_found_in_memory_and_in_files(extension, folder):
    units = fill(extension, 50)
    assert {address: extension.get(address) for address in units} == units
    flush(extension)
    assert not extension.has_unwritten
    assert {address: extension.get(address) for address in units} == units
    again = reopened(folder, max(units))
    assert {address: again.get(address) for address in units} == units


def test_old_units_leave_the_memory(folder):
    extension = QueueExtension(folder, 1 << 20, RealDisk())
    units = fill(extension, 10_000)
    flush(extension)
    (folder / f"{0:020}").unlink()
    found = [address for address in units if extension.get(address) is not None]
    assert 1000 < len(found) < 2000
    assert max(found) == max(units)


def test_a_large_unit_is_read_whole(folder):
    extension = QueueExtension(folder, 1 << 16, RealDisk())
    bits = bytes(range(256)) * 100
    address = extension.append(1, 2, bits)
    flush(extension)
    assert reopened(folder, address, 1 << 16).get(address) == Extension(1, 2, bits)


def test_bits_that_fit_nowhere_leave_the_tag_code(folder, extension):
    assert extension.append(-5, 0, bytes(FILE_SIZE - 23)) == -5
    large = QueueExtension(folder, 1 << 20, RealDisk())
    assert large.append(-5, 0, bytes(2**15 - 20)) == -5
    assert large.append(-5, 0, bytes(2**15 - 21)) == BASE
    assert not extension.has_unwritten


def test_what_is_no_address(extension):
    extension.append(1, 1, BITS)
    for address in (0, -1, -(2**31), BASE + 34, BASE + 10**6):
        assert extension.get(address) is None
    assert not is_address(-(2**31))
    assert is_address(-(2**31) - 1)


@pytest.mark.parametrize("head", [(0, 0), (-1, 0), (34, 13), (19, -1), (33, 14)])
def test_a_damaged_unit_is_none(extension, folder, head):
    address = extension.append(1, 1, BITS)
    flush(extension)
    size, bits_size = head
    path = folder / f"{0:020}"
    path.write_bytes(struct.pack(">hqqh", size, 1, 1, bits_size) + path.read_bytes()[20:])
    assert reopened(folder, None).get(address) is None


@pytest.mark.parametrize("last_address", [None, BASE + 35, 5])
def test_without_a_last_address_a_new_file_begins(extension, folder, last_address):
    units = fill(extension, 3)
    flush(extension)
    again = reopened(folder, last_address)
    assert again.append(1, 1, BITS) == BASE + FILE_SIZE
    assert {address: again.get(address) for address in units} == units


def test_nothing_is_loaded_from_nothing(folder):
    assert reopened(folder, None).append(1, 1, BITS) == BASE
    assert reopened(folder, BASE + 500).append(1, 1, BITS) == BASE


def test_a_cut_leaves_zeros_and_no_later_files(extension, folder):
    units = fill(extension, 50)
    flush(extension)
    keep = sorted(units)[20]
    extension.cut(keep)
    end = keep - BASE + 20 + len(units[keep].bits)
    assert extension.end == end
    last = max(folder.iterdir())
    assert int(last.name) == end // FILE_SIZE * FILE_SIZE
    assert not any(last.read_bytes()[end % FILE_SIZE :])
    for address, unit in units.items():
        assert extension.get(address) == (unit if address <= keep else None)
    assert extension.append(1, 1, b"") == BASE + end


def test_a_cut_of_what_is_in_memory_alone(extension, folder):
    units = fill(extension, 50)
    keep = sorted(units)[20]
    extension.cut(keep)
    flush(extension)
    again = reopened(folder, keep)
    assert {address: again.get(address) for address in units if address <= keep} == {
        address: unit for address, unit in units.items() if address <= keep
    }
    assert again.end == extension.end


def test_a_cut_of_everything(extension, folder):
    fill(extension, 50)
    flush(extension)
    extension.cut(None)
    assert list(folder.iterdir()) == []
    assert extension.append(1, 1, BITS) == BASE


def test_a_cut_at_no_unit_cuts_nothing(extension):
    units = fill(extension, 3)
    flush(extension)
    extension.cut(BASE + 5)
    assert extension.append(1, 1, BITS) == BASE + FILE_SIZE
    assert {address: extension.get(address) for address in units} == units


def test_old_files_are_forgotten(extension, folder):
    units = fill(extension, 50)
    flush(extension)
    keep = sorted(units)[20]
    for path in extension.forget_before(keep):
        path.unlink()
    base = (keep - BASE) // FILE_SIZE * FILE_SIZE
    assert int(min(folder.iterdir()).name) == base
    again = reopened(folder, max(units))
    for address, unit in units.items():
        expected = unit if address - BASE >= base else None
        assert extension.get(address) == again.get(address) == expected


@pytest.mark.parametrize("seed", range(20))
def test_any_history_against_a_table(folder, seed):
    """Units, flushes, cuts, new starts: what was kept is there, what was cut is not."""
    draw = random.Random(seed)
    extension = QueueExtension(folder, FILE_SIZE, RealDisk())
    table: dict[int, Extension] = {}
    for step in range(200):
        match draw.choice(["append"] * 6 + ["flush", "cut", "start", "lost"]):
            case "append":
                unit = Extension(draw.randint(-(2**31), 2**31), step, draw.randbytes(step % 40))
                table[extension.append(*unit)] = unit
            case "flush":
                flush(extension)
            case "cut" if table:
                last = draw.choice(sorted(table))
                extension.cut(last)
                table = {address: unit for address, unit in table.items() if address <= last}
            case "start":
                flush(extension)
                extension = reopened(folder, max(table, default=None))
            case "lost":
                flush(extension)
                extension = reopened(folder, None)
        assert {address: extension.get(address) for address in table} == table


def ask_apache(tmp_path, *steps):
    """The end and first address that Apache sees, and its answers."""
    (tmp_path / "steps").write_text("".join(json.dumps(step) + "\n" for step in steps))
    return run_java("ExtensionOracle", tmp_path, FILE_SIZE, tmp_path / "steps")


def seen(answer):
    return Extension(answer["tag"], answer["stored"], bytes.fromhex(answer["bits"] or ""))


@pytest.mark.apache
def test_apache_reads_and_continues_ours_and_we_its(apache_class_path, tmp_path, folder, extension):
    units = fill(extension, 40)
    flush(extension)
    more = fill(QueueExtension(folder, FILE_SIZE, RealDisk()), 20, start=100)
    puts = [{"put": [unit.tag_code, unit.stored_ms, unit.bits.hex()]} for unit in more.values()]
    opened, *answers = ask_apache(tmp_path, *({"get": address} for address in units), *puts)
    assert opened == {"end": BASE + extension.end, "first": BASE}
    assert [seen(answer) for answer in answers[:40]] == list(units.values())

    added = [answer["address"] for answer in answers[40:]]
    again = reopened(folder, added[-1])
    assert [again.get(address) for address in added] == list(more.values())
    assert {address: again.get(address) for address in units} == units
    # We would have put them in the same places.
    assert added == list(fill(extension, 20, start=100))


@pytest.mark.apache
def test_apache_takes_what_we_cut(apache_class_path, tmp_path, folder, extension):
    units = fill(extension, 50)
    flush(extension)
    kept = sorted(units)[:21]
    extension.cut(kept[-1])
    opened, *answers = ask_apache(tmp_path, *({"get": address} for address in units))
    assert opened["end"] == BASE + extension.end
    assert [answer["found"] for answer in answers] == [address in kept for address in units]


@pytest.mark.apache
def test_apache_walks_over_a_file_that_ends_early(apache_class_path, tmp_path, folder, extension):
    fill(extension, 3)
    flush(extension)
    again = reopened(folder, None)
    address = again.append(1, 2, BITS)
    flush(again)
    opened, answer = ask_apache(tmp_path, {"get": address})
    assert opened["end"] == BASE + again.end
    assert seen(answer) == Extension(1, 2, BITS)
