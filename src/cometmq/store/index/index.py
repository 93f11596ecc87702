"""The key index: which messages of a topic have a key, by a row of hash files.

The files are named by the local time at which they were made, yyyyMMddHHmmssSSS. Keys go to the
newest one, many at once: until then they are held. When it is full, another is made. All of it can
be made again from the log: a file that is not to be trusted is removed with those after it, and
`end_offset` says from where on the log has to be read again. What is found is a hint: hashes
collide, and times are kept in seconds. The caller looks at the record.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

from cometmq.protocol.records.key_hash import key_hash
from cometmq.seams import Clock, Disk, Region
from cometmq.store.disk_full import RoomFor, is_full
from cometmq.store.index.file_names import is_index_name, next_name
from cometmq.store.index.index_file import HasKey, IndexFile, believe, file_size
from cometmq.store.index.key_buffer import KeyBuffer

_UNFINISHED = ".tmp"  # how Disk calls a file that it makes
_END_OF_TIME_MS = 2**63 - 1
HELD_MAX = 1024  # messages in the buffer: about 1 ms of work with numpy
_MAKE_AHEAD = 0.9  # how full a file is when the next one is begun

# What may be wrong with a file, through a crash or a file made ahead of need, and costs nothing.
_EMPTY = "is empty"
_TOO_NEW = "has nothing that is surely whole"
_FOLLOWS = "follows a cut or bad one"
_HARMLESS = (_EMPTY, _TOO_NEW, _FOLLOWS)


class Index:
    """Oldest file first. Runs on the loop, but for the making of files and their syncing."""

    def __init__(
        self,
        folder: Path,
        slots: int,
        entries: int,
        disk: Disk,
        clock: Clock,
        has_key: HasKey = believe,
    ) -> None:
        assert slots >= 1 and entries >= 2, "at least one entry; there is no entry 0"
        self._folder = folder
        self._slots = slots
        self._entries = entries
        self._disk = disk
        self._clock = clock
        self._has_key = has_key
        self._files: list[IndexFile] = []
        self._newest: IndexFile | None = None  # the last of them
        self._next: Future[Region] | None = None  # made ahead of need
        self._room = RoomFor(disk, folder, file_size(slots, entries), "index file")
        self.is_short = False  # of room for the next file: the rest is for internal writes
        self._newest_name = ""
        self.lacks_keys = False  # of messages before its end: it is to be made again
        self.last_stored_ms = 0  # for the checkpoint: see `dirty_regions`
        self._created: list[IndexFile] = []  # for entries that are reserved
        self._buffer = KeyBuffer()
        self._free = 0  # entries of the newest and of created files, less those in the buffer

    @property
    def files(self) -> tuple[IndexFile, ...]:
        """Oldest first."""
        self.settle()
        return tuple(self._files)

    @property
    def end_offset(self) -> int:
        """Where the last message of the index is in the log; 0 if there is none."""
        if self._buffer.places:
            return self._buffer.places[-1]
        return 0 if self._newest is None else self._newest.end_offset

    # Writing

    def reserve(self, count: int, *, internal: bool = False) -> None:
        """Have room for `count` more entries; OSError if a file is needed and cannot be created.

        While `is_short`, what is left is for internal writes.
        """
        if self.is_short and not internal:
            error = self._room.missing()
            self._room.refused(error)
            raise error
        if count > self._free:
            self._create_for(count - self._free)

    def add(
        self,
        topics: Sequence[str],
        keys: Sequence[Sequence[str]],
        places: Sequence[int],
        stored_ms: int,
        count: int,
    ) -> None:
        """Buffer the keys of new messages, by columns; the caller has reserved `count` entries."""
        self._buffer.add(topics, keys, places, stored_ms)
        self._free -= count
        if len(self._buffer.places) >= HELD_MAX:
            self.settle()

    def settle(self) -> None:
        """Write the buffer: it is full, or a query or a checkpoint needs it."""
        if self._buffer.places:
            self._write(*self._buffer.entries())

    def put(self, hashes: "array[int]", places: "array[int]", times_ms: "array[int]") -> None:
        """Write entries: of each key its hash, its message's place and time. For recovery.

        Messages before `end_offset` are skipped. OSError if a file is needed and cannot be created:
        nothing was put.
        """
        self.settle()
        known = bisect_left(places, self.end_offset)
        self.reserve(len(hashes) - known, internal=True)
        self._free -= len(hashes) - known
        self._write(hashes[known:], places[known:], times_ms[known:])

    def _write(self, hashes: "array[int]", places: "array[int]", times_ms: "array[int]") -> None:
        """Fill the newest file, and as many of those created for the entries as they need."""
        at = 0
        while at < len(hashes):
            if self._newest is None or not self._newest.room:
                self._newest = self._created.pop(0)
                self._newest.settle(self.last_stored_ms)
                self._files.append(self._newest)
            end = at + self._newest.room
            self._newest.put(hashes[at:end], places[at:end], times_ms[at:end])
            at = end

    def _create_for(self, count: int) -> None:
        """One file, or as many tiny ones as these entries need; on OSError none stays."""
        created: list[IndexFile] = []
        try:
            while count > 0:
                coming, self._next = self._next, None
                if coming is None or coming.exception() is not None:
                    region = self._create(self._new_name())
                else:
                    region = coming.result()
                created.append(IndexFile(region, self._slots, self._entries))
                count -= created[-1].room
        except OSError:
            for file in created:
                self._remove(file)
            raise
        self._created += created
        self._free += sum(file.room for file in created)
        self.is_short = False
        self._room.made()

    def _new_name(self) -> str:
        self._newest_name = next_name(self._newest_name, self._clock.wall_ms())
        return self._newest_name

    def _create(self, name: str) -> Region:
        return self._disk.create(self._folder / name, file_size(self._slots, self._entries))

    def begin_next(self) -> None:
        """Have the next file ready before the newest one, nearly full, is full.

        Called again and again: it also finds out that the disk has become full, or has room again.
        """
        if self._next is not None and self._next.done():
            error = self._next.exception()
            self.is_short = is_full(error)
            if error is None:
                self._room.made()
            elif self._room.is_likely():
                self._next = None
        newest = self._newest
        if self._next is None and newest and newest.count > self._entries * _MAKE_AHEAD:
            self._next = self._disk.begin(partial(self._create, self._new_name()))

    def dirty_regions(self) -> list[Region]:
        """What was written to since the last call, to be synced.

        Then, and not before, a checkpoint may say `last_stored_ms` as this call has left it.
        """
        self.settle()
        dirty = [file for file in self._files if file.is_dirty()]
        self.last_stored_ms = max([self.last_stored_ms, *(file.end_ms for file in dirty)])
        for file in dirty:
            file.settle(self.last_stored_ms)
        return [file.region for file in dirty]

    def in_use_since_ms(self) -> int:
        """When the first message of the newest file was stored; the end of time if there is none.

        After a crash the original throws away the file that was written to, and makes its keys
        again from the time that a checkpoint gives for the queues.
        """
        return _END_OF_TIME_MS if self._newest is None else self._newest.begin_ms

    # Reading

    def query(self, topic: str, key: str, begin_ms: int, end_ms: int) -> Iterator[int | None]:
        """Physical offsets, newest first, of messages that may have the key and be of the time.

        None each time that it looked for long. What is put meanwhile is not found.
        """
        wanted = key_hash(topic, key)
        last = -1
        for file in reversed(self.files):
            for offset in file.query(wanted, begin_ms, end_ms):
                if offset is None or offset != last:  # its keys may be in two files
                    yield offset
                last = last if offset is None else offset

    # Starting, cutting, forgetting

    def load(
        self,
        unclean: bool,
        safe_end: int,
        safe_ms: int,
        on_odd: Callable[[str], None],
        expected: Collection[str] = (),
    ) -> bool:
        """Map the files that are there. After an unclean stop, what may be torn is cut off.

        False if one is damaged, or one of the expected is not there: messages are to be put again
        from `end_offset` on.

        `safe_end` is where the log ended at the last checkpoint: messages from there on may be here
        in part, and are to be put again from `end_offset` on. `safe_ms` is the `last_stored_ms` of
        then.
        """
        assert not self._files, "only once"
        self.was_cut = False  # what is missing begins at `end_offset`, before `safe_end` perhaps
        trusted = is_whole = True
        for name in sorted({*self._disk.names(self._folder), *expected}):
            path = self._folder / name
            if name.endswith(_UNFINISHED) and is_index_name(name.removesuffix(_UNFINISHED)):
                self._remove_odd(path, "was never finished", on_odd)
            elif not is_index_name(name):
                on_odd(f"{path} is no file of the index; left alone")
            else:
                self._newest_name = name
                fault = self._open(path, unclean, safe_end) if trusted else _FOLLOWS
                if fault:
                    trusted = False
                    is_whole = is_whole and name not in expected and fault in _HARMLESS
                    self._remove_odd(path, fault, on_odd)
                elif unclean and self._cut_torn(safe_end):
                    trusted = False
                    self.was_cut = True
        self._find_newest()
        # What a checkpoint on disk may say; a damaged one may say anything.
        safe_ms = min(safe_ms, self._clock.wall_ms())
        self.last_stored_ms = max([safe_ms, *(file.end_ms for file in self._files)])
        for file in self._files:  # what a killed process wrote may be in memory only
            file.settle(self.last_stored_ms, synced=not unclean)
        return is_whole

    def _open(self, path: Path, unclean: bool, safe_end: int) -> str:
        """Add a file to the row, or tell what is wrong with it."""
        size = file_size(self._slots, self._entries)
        try:
            found = self._disk.size(path)
        except FileNotFoundError:
            return "is gone"
        if found != size:
            return f"has {found} bytes, not {size}"
        file = IndexFile(self._disk.map(path, size), self._slots, self._entries)
        fault = ""
        if not file.is_possible():
            fault = "has an impossible header"
        elif file.count == 1:
            fault = _EMPTY
        elif unclean and file.end_offset >= safe_end and self._whole(file, safe_end) == 1:
            fault = _TOO_NEW
        if fault:
            file.close()
            return fault
        self._files.append(file)
        return ""

    def _cut_torn(self, safe_end: int) -> bool:
        """Cut the file just opened to what is surely whole; True if there was more."""
        file = self._files[-1]
        if file.end_offset >= safe_end:
            file.cut(self._whole(file, safe_end))
            return True
        if file.is_torn():
            file.cut(file.count)
        return False

    def _whole(self, file: IndexFile, safe_end: int) -> int:
        return file.count_below(safe_end, self._has_key)

    def _remove_odd(self, path: Path, fault: str, on_odd: Callable[[str], None]) -> None:
        try:
            self._disk.delete(path)
        except OSError as error:
            on_odd(f"{path} {fault}; it cannot be removed: {error}")
        else:
            on_odd(f"{path} {fault}; removed")

    def cut(self, log_end: int) -> None:
        """Forget the messages from `log_end` on: the log lost them."""
        self.settle()
        while self._files and self._files[-1].begin_offset >= log_end:
            self._remove(self._files.pop())
        if self._files and self._files[-1].end_offset >= log_end:
            self._files[-1].cut(self._files[-1].count_below(log_end))
        self._find_newest()

    def forget_before(self, log_start: int) -> list[Region]:
        """Forget the files that know only messages before `log_start`, but never the newest.

        The caller closes and deletes them, once no sync of them is under way.
        """
        gone = []
        while len(self._files) > 1 and self._files[0].end_offset < log_start:
            gone.append(self._files.pop(0).region)
        return gone

    def close(self) -> None:
        """Unmap everything."""
        self.settle()
        for file in self._files:
            file.close()
        self._files.clear()
        self._newest = None
        unused = [file.region for file in self._created]
        coming, self._next = self._next, None
        if coming is not None and coming.exception() is None:
            unused.append(coming.result())
        for region in unused:
            region.close()
            self._disk.delete(region.path)

    def _find_newest(self) -> None:
        self._newest = self._files[-1] if self._files else None
        newest_room = 0 if self._newest is None else self._newest.room
        self._free = newest_room + sum(file.room for file in self._created)

    def _remove(self, file: IndexFile) -> None:
        file.close()
        self._disk.delete(file.region.path)
