"""The extension of one consume queue: what a unit of 20 bytes has no room for.

    | unit size 2 | tag code 8 | stored 8 (ms since 1970) | size of the bits 2 | bits |

The bits say which groups want the message (`protocol/filter/bloom.py`); there may be none. A queue
that has an extension keeps the address of such a unit where its tag code was: the offset of the
unit among all files, counted up from -2^63. Tag codes are of 32 bits: the two cannot be mixed up.

Files are of one size, named as the queue's. A unit stands in one file, with at least 4 bytes behind
it: where the next does not fit, there is -1 for its size, and it begins the next file.

As with the queue, the newest units are in memory and the flusher writes them. What a crash takes is
made again with the queue's own units.
"""

import struct
from pathlib import Path
from typing import NamedTuple

from cometmq.seams import Disk
from cometmq.store.log.commit_log import name_of
from cometmq.store.queue.file_runs import Write, file_bases, writes_of

_HEAD = struct.Struct(">hqqh")
HEAD_SIZE = 20
assert _HEAD.size == HEAD_SIZE
UNIT_SIZE_MAX = 2**15 - 1
_FILE_END = struct.pack(">h", -1)
_BLANK_AT_END = 4
_ADDRESS_OF_0 = -(2**63)
_ADDRESS_MAX = -(2**31) - 1  # above are tag codes
_KEPT_SIZE = 32 << 10  # bytes of written units that stay in memory for readers near the end
_READ_SIZE = 128  # a unit with the bits of the default settings has 34 bytes
_SCAN_SIZE = 256 << 10


EXTENSIONS = "consumequeue_ext"  # a folder beside the queues' own, and the same inside


class Extension(NamedTuple):
    """What is known of one message beside its unit in the queue."""

    tag_code: int
    stored_ms: int
    bits: bytes


def extension_of(folder: Path) -> Path:
    """Where the extensions of a topic's queues are."""
    return folder.parent.with_name(EXTENSIONS) / folder.name


def is_address(tag_code: int) -> bool:
    """Whether a queue's unit has an address there, and not the code itself."""
    return tag_code <= _ADDRESS_MAX


class QueueExtension:
    """Units from offset `_first` to `_end`; those from `_kept` on are in memory."""

    __slots__ = ("_disk", "_end", "_file_size", "_first", "_folder", "_kept", "_units", "_written")

    def __init__(self, folder: Path, file_size: int, disk: Disk) -> None:
        self._folder = folder
        self._file_size = file_size
        self._disk = disk
        self._units = bytearray()
        self._kept = 0
        self._written = 0
        self._first = 0
        self._end = 0

    # Writing

    def append(self, tag_code: int, stored_ms: int, bits: bytes) -> int:
        """Add a unit; its address. Bits that fit in no unit or file: the tag code, as it was."""
        size = HEAD_SIZE + len(bits)
        if size > min(UNIT_SIZE_MAX, self._file_size - _BLANK_AT_END):
            return tag_code
        room = self._file_size - self._end % self._file_size
        if size > room - _BLANK_AT_END:
            self._units += _FILE_END.ljust(room, b"\0")
            self._end += room
        address = _ADDRESS_OF_0 + self._end
        assert is_address(address), "nine exabytes of units are not written in a lifetime"
        self._units += _HEAD.pack(size, tag_code, stored_ms, len(bits))
        self._units += bits
        self._end += size
        return address

    @property
    def end(self) -> int:
        """The offset after the last unit."""
        return self._end

    @property
    def has_unwritten(self) -> bool:
        """There are units that are in memory alone."""
        return self._written < self._end

    def unwritten(self) -> list[Write]:
        """What must be written to the files; `written(end)` says that it was."""
        data = memoryview(self._units)[self._written - self._kept :]
        return writes_of(self._folder, self._file_size, self._written, data)

    def written(self, end: int) -> None:
        """What stands before `end` is in the files; most of it need not be in memory any more."""
        self._written = end
        surplus = end - _KEPT_SIZE - self._kept
        if surplus > _KEPT_SIZE:  # so that it happens once in a while
            self._units = self._units[surplus:]
            self._kept += surplus

    @property
    def kept_size(self) -> int:
        """Bytes that are in memory and in the files."""
        return self._written - self._kept

    def release(self) -> None:
        """Have in memory only what is in no file."""
        self._units = self._units[self.kept_size :]
        self._kept = self._written

    # Reading

    def get(self, address: int) -> Extension | None:
        """The unit at an address; None if there is none, or no more."""
        offset = address - _ADDRESS_OF_0
        if not is_address(address) or not self._first <= offset < self._end:
            return None
        found = self._read(offset, _READ_SIZE)
        if len(found) < HEAD_SIZE:
            return None
        size, tag_code, stored_ms, bits_size = _HEAD.unpack_from(found)
        if bits_size < 0 or size != HEAD_SIZE + bits_size:
            return None
        if size > len(found):
            found = self._read(offset, size)
        bits = bytes(found[HEAD_SIZE:size])
        return Extension(tag_code, stored_ms, bits) if len(bits) == bits_size else None

    def _read(self, offset: int, size: int) -> bytes | bytearray:
        if offset >= self._kept:
            at = offset - self._kept
            return self._units[at : at + size]
        path, place = self._place(offset)
        try:
            return self._disk.read_at(path, place, size)
        except FileNotFoundError:
            return b""

    # Starting, cutting, forgetting

    def load(self, last_address: int | None) -> None:
        """Go on after the unit at this address, the last that the queue has.

        Where that is not known, or there is no such unit, in a new file: a file may end anywhere.
        """
        bases = self._bases()
        if bases:
            self._first = bases[0]
            self._begin_file()
            after = None if last_address is None else self._after(last_address)
            if after is not None:
                self._move_end(after)

    def cut(self, last_address: int | None) -> None:
        """Make the unit at this address the last, durably; None: there is none left.

        If there is no such unit nothing is cut, but the next one begins a new file.
        """
        end = self._first if last_address is None else self._after(last_address)
        if end is None:
            assert not self.has_unwritten, "the queue and its extension were written together"
            self._begin_file()
            return
        kept_base = end - end % self._file_size
        for base in reversed(self._bases()):
            if base > kept_base or base == end:
                self._disk.delete(self._place(base)[0])
            elif base == kept_base:
                self._blank_from(end)
        self._move_end(end)

    def forget_before(self, address: int) -> list[Path]:
        """Files whose units are all before the one at this address, for the caller to delete."""
        end = min(address - _ADDRESS_OF_0, self._written)
        gone = [base for base in self._bases() if base + self._file_size <= end]
        if gone:
            self._first = gone[-1] + self._file_size
        return [self._place(base)[0] for base in gone]

    def _after(self, address: int) -> int | None:
        unit = self.get(address)
        if unit is None:
            return None
        return address - _ADDRESS_OF_0 + HEAD_SIZE + len(unit.bits)

    def _begin_file(self) -> None:
        used = max([self._end, *(base + self._file_size for base in self._bases())])
        self._move_end(used + -used % self._file_size)

    def _move_end(self, end: int) -> None:
        """To a place whose units before it are in the files, or in memory still."""
        if end < self._kept or end > self._kept + len(self._units):
            self._units.clear()
            self._kept = end
        else:
            del self._units[end - self._kept :]
        self._end = end
        self._written = min(end, max(self._written, self._kept))

    def _blank_from(self, offset: int) -> None:
        """Zeros in the rest of a file. Only where there are none: most of it may be a hole."""
        path, place = self._place(offset)
        while place < self._file_size:
            found = self._disk.read_at(path, place, min(_SCAN_SIZE, self._file_size - place))
            if not found:
                return
            if any(found):
                self._disk.write_at(path, place, bytes(len(found)), self._file_size)
            place += len(found)

    def _bases(self) -> list[int]:
        return file_bases(self._disk, self._folder)

    def _place(self, offset: int) -> tuple[Path, int]:
        """The file of an offset, and where in it."""
        place = offset % self._file_size
        return self._folder / name_of(offset - place), place
