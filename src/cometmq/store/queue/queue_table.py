"""The table of all consume queues: lookup, creation, listing and deletion.

A queue is loaded at its first use, so a store with many topics starts as fast as one with few.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from cometmq.errors import BeingDeleted
from cometmq.seams import Disk
from cometmq.store.log.commit_log import CommitLog, name_of
from cometmq.store.queue.consume_queue import UNIT, UNIT_SIZE, ConsumeQueue, Judge
from cometmq.store.queue.file_runs import Write, file_bases
from cometmq.store.queue.queue_check import fault_of_ends, fault_of_files, lacks_files
from cometmq.store.queue.queue_extension import extension_of
from cometmq.store.queue.queue_files import QueueFiles, UnitsPast, units_past, write_in_order
from cometmq.store.queue.unit_cache import KeptUnits
from cometmq.store.recovery.manifest import Bounds, Manifest, Span

log = logging.getLogger(__name__)

Key = tuple[str, int]  # topic and queue id
Maker = Callable[[Path, int, Disk], ConsumeQueue]


class QueueTable:
    """Consume queues by topic and queue id. `judge` compares a unit with its record in the log."""

    def __init__(
        self,
        folder: Path,
        file_size: int,
        disk: Disk,
        judge: Judge,
        commit_log: CommitLog,
        make: Maker = ConsumeQueue,
    ) -> None:
        self._folder = folder
        self._file_size = -(-file_size // UNIT_SIZE) * UNIT_SIZE
        self._disk = disk
        self._judge = judge
        self._log = commit_log
        self._make = make
        self._files = QueueFiles(folder, self._file_size, disk)
        self._queues: dict[Key, ConsumeQueue] = {}
        self._kept = KeptUnits()
        self._spans: dict[Key, Span] = {}  # of those that have files
        self._unlisted: dict[Key, Span] = {}  # what was there, for want of a manifest
        self._bounds: dict[Key, Bounds] = {}  # as they were at a checkpoint
        self.swept_to = 0  # all queues know that the log starts there
        self._leaving: set[str] = set()  # topics whose files are yet to be deleted
        self._deleted: dict[str, int] = {}  # records before it in the log are of a topic no more
        self._ends: dict[Key, int] = {}  # ends of queues that are rebuilt
        self._keeps_ends = False  # of all of them, though they may have records
        self.has_changed = True  # since `listed` was last asked for

    def get(self, topic: str, queue_id: int) -> ConsumeQueue:
        """The queue, loaded from its files, or empty if there are none."""
        queue = self._queues.get((topic, queue_id))
        return queue if queue is not None else self._open(topic, queue_id)

    def open_to_puts(self, topic: str, queue_id: int) -> ConsumeQueue:
        """As `get`, for a put. Raises BeingDeleted if its topic is being deleted."""
        queue = self._queues.get((topic, queue_id))
        if queue is None:
            if topic in self._leaving:
                raise BeingDeleted(f"topic {topic} is being deleted; try again")
            queue = self._open(topic, queue_id)
        return queue

    def trimmed(self, topic: str, queue_id: int) -> ConsumeQueue:
        """As `get`, with `first` advanced to the start of the log even before the next sweep."""
        queue = self.get(topic, queue_id)
        log_start = self._log.start
        if log_start > self.swept_to:
            queue.forget_before(log_start)
        return queue

    def _open(self, topic: str, queue_id: int) -> ConsumeQueue:
        queue = self._new((topic, queue_id))
        if topic in self._leaving:
            return queue  # its files are being deleted
        bounds = self._bounds.get((topic, queue_id))
        bases = self._files.run(
            self._folder_of(topic, queue_id), self._spans.get((topic, queue_id))
        )
        queue.load(self._judge, bases, bounds)
        log_start = self._log.start
        is_trimmed = bounds is not None and bounds.log_start == log_start
        if queue.end > queue.first and not is_trimmed:
            queue.forget_before(log_start)
        self._queues[topic, queue_id] = queue
        return queue

    def _new(self, key: Key) -> ConsumeQueue:
        return self._make(self._folder_of(*key), self._file_size, self._disk)

    def _folder_of(self, topic: str, queue_id: int) -> Path:
        return self._folder / topic / str(queue_id)

    def is_current(self, queue: ConsumeQueue) -> bool:
        """The table still has this queue: its topic was not deleted."""
        return self._queues.get(queue.key) is queue

    def has_unit(self, topic: str, queue_id: int, queue_offset: int, physical_offset: int) -> bool:
        """The unit at this queue offset points to this physical offset."""
        key = topic, queue_id
        if topic in self._leaving or (key not in self._queues and key not in self._spans):
            return False
        unit = self.get(topic, queue_id).unit(queue_offset)
        return unit is not None and unit[0] == physical_offset

    def known(self) -> Iterator[Key]:
        """Every queue that has files or was used."""
        seen = set(self._queues)
        yield from seen
        for topic in self._disk.names(self._folder):
            with suppress(NotADirectoryError):  # a stray file beside the topics
                for name in self._disk.names(self._folder / topic):
                    if name.isdigit() and (topic, int(name)) not in seen:
                        yield topic, int(name)

    @property
    def set_aside(self) -> int:
        """Files that were moved away since the store was opened."""
        return self._files.set_aside

    # Writing

    def with_unwritten(self) -> list[tuple[Key, ConsumeQueue]]:
        """Queues with units that are not in files yet."""
        return [(key, queue) for key, queue in self._queues.items() if queue.has_unwritten]

    def unwritten(
        self, queues: Iterable[tuple[Key, ConsumeQueue]]
    ) -> list[tuple[Key, ConsumeQueue, int, list[Write]]]:
        """These queues with their current ends and the writes that they need."""
        return [(key, queue, queue.end, queue.unwritten()) for key, queue in queues]

    def written(self, key: Key, queue: ConsumeQueue, end: int) -> None:
        """Note that the units before `end` are in files."""
        queue.written(end)
        self._kept.note(queue)
        self._note(key, queue)

    def write(self) -> None:
        """Write all unwritten units, blocking."""
        batch = self.unwritten(self.with_unwritten())
        write_in_order(self._disk, [writes for _, _, _, writes in batch])
        for key, queue, end, _ in batch:
            self.written(key, queue, end)

    # What files there are

    def listed(self, index_names: list[str]) -> Manifest:
        """The manifest: first and last file of every queue that has files."""
        self.has_changed = False
        spans: dict[str, dict[int, Span]] = {}
        for (topic, queue_id), span in self._spans.items():
            spans.setdefault(topic, {})[queue_id] = span
        bounds: dict[str, dict[int, Bounds]] = {}
        for (topic, queue_id), bound in self._bounds.items():
            bounds.setdefault(topic, {})[queue_id] = bound
        return Manifest(spans, index_names, dict(self._deleted), bounds)

    def bounds_now(self) -> dict[Key, Bounds]:
        """First and end offsets of the queues whose listed ones are outdated."""
        log_start = self._log.start
        if log_start > self.swept_to:  # the queues are not swept yet
            return {}
        now = {
            key: Bounds(log_start, queue.first, queue.end)
            for key, queue in self._queues.items()
            if queue.end
        }
        return {key: bounds for key, bounds in now.items() if self._bounds.get(key) != bounds}

    def list_bounds(self, bounds: Mapping[Key, Bounds]) -> None:
        """Put the result of `bounds_now` into the next manifest; the units are on disk now."""
        self._bounds.update({key: each for key, each in bounds.items() if key in self._spans})
        self.has_changed |= bool(bounds)

    def load(self, manifest: Manifest | None) -> dict[Key, str]:
        """Compare the files with the manifest; returns the queues to rebuild, and the reasons.

        The caller rebuilds them after `clear`. Files of deleted topics are removed. Without a
        manifest, a queue is complete unless a file between others is missing or has another size.
        """
        self.swept_to = self._log.start
        if manifest is None:
            apart = [key for key in list(self.known()) if not self._is_in_one_piece(key)]
            self._unlisted = dict(self._spans)
            return {
                key: f"{self._folder_of(*key)} lacks a file, or has one of another size"
                for key in apart
            }
        self._spans = {
            (topic, queue_id): span
            for topic, of_topic in manifest.queues.items()
            for queue_id, span in of_topic.items()
        }
        self._bounds = {
            (topic, queue_id): bounds
            for topic, of_topic in manifest.bounds.items()
            for queue_id, bounds in of_topic.items()
        }
        self._deleted = dict(manifest.deleted)
        faults = {key: self._fault(key, span) for key, span in self._spans.items()}
        lost = {key: fault for key, fault in faults.items() if fault is not None}
        for topic in self._deleted.keys() - manifest.queues.keys():
            self._delete_left(topic)
        self.has_changed = bool(lost)
        return lost

    def suspects(self, unclean: bool) -> dict[Key, str]:
        """After recovery: queues without bounds in the manifest whose last units are wrong.

        After a crash the last units may point to records that the log lost.
        """
        keys = [key for key in self.known() if key not in self._bounds]
        queues = [self.get(*key) for key in keys if key[0] not in self._leaving]
        return {
            queue.key: f"{queue.path_of(queue.end - 1)} does not match the log"
            for queue in queues
            if queue.is_suspect or (not unclean and self._is_incomplete(queue))
        }

    def _is_incomplete(self, queue: ConsumeQueue) -> bool:
        span = self._unlisted.get(queue.key)
        return queue.has_stale_units or (span is not None and lacks_files(queue, span, self._judge))

    def _fault(self, key: Key, span: Span) -> str | None:
        """Why the files of a queue cannot be used; None if they can."""
        fault = fault_of_files(self._disk, self._folder_of(*key), self._file_size, span)
        return fault or fault_of_ends(
            self._new(key), span, self._bounds.get(key), self._judge, self._log.start
        )

    def clear(self, lost: Collection[Key]) -> None:
        """Remove the files of these queues, which are then rebuilt from the log."""
        for key in lost:
            queue = self._queues.pop(key, None) or self._new(key)
            self._kept.forget(queue)
            self._unlisted.pop(key, None)
            end = self._files.clear(self._folder_of(*key), queue, self._spans.pop(key, None))
            self._ends[key] = max(end, self._ends.get(key, 0))
            self.has_changed = True

    def units_past(self, log_end: int) -> dict[Key, UnitsPast]:
        """Queues whose last units point past the end of the log."""
        found = {
            key: units_past(self._new(key), last, log_end) for key, (_, last) in self._spans.items()
        }
        return {key: past for key, past in found.items() if past is not None}

    def keep_ends(self, log_end: int) -> None:
        """Let queues continue after units whose records the log lost: see `restore_ends`."""
        self._keeps_ends = True
        for key, past in self.units_past(log_end).items():
            self._ends[key] = max(past.end, self._ends.get(key, 0))

    def restore_ends(self, log_end: int) -> None:
        """After a rebuild: make sure that no queue offset is assigned twice.

        Rebuilt queues without a record in the log, or whose last records are damaged, continue at
        their old end.
        """
        for key, end in self._ends.items():
            queue, bounds = self.get(*key), self._bounds.get(key)
            if self._keeps_ends:
                queue.continue_at(end, max(log_end - 1, 0))
            elif bounds is not None and not queue.is_empty:
                queue.continue_at(bounds.end, max(log_end - 1, 0))
            elif queue.is_empty:
                queue.continue_at(end, max(self._log.start - 1, 0))
                queue.forget_before(self._log.start)

    def _is_in_one_piece(self, key: Key) -> bool:
        folder = self._folder_of(*key)
        bases = file_bases(self._disk, folder)
        if bases:
            self._spans[key] = bases[0], bases[-1]
        return self._files.whole_run(folder, bases) == bases

    def _note(self, key: Key, queue: ConsumeQueue) -> None:
        span = queue.span
        if span != self._spans.get(key):
            self.has_changed = True
            self._spans.pop(key, None)
            if span is not None:
                self._spans[key] = span

    # Forgetting

    def forget_before(self, log_start: int) -> Iterator[list[Path]]:
        """Advance the queues to the start of the log; yields the files of each that can be deleted.

        Each queue takes a few reads at most. A queue that is not loaded is advanced when it is
        loaded. A single file, which is what most queues have, is not deleted.
        """
        for topic in [topic for topic, end in self._deleted.items() if end <= log_start]:
            del self._deleted[topic]
            self.has_changed = True
        for key in list({**self._spans, **self._queues}):
            try:
                yield self._forget_of(key, log_start)
            except OSError as error:  # continue with the other queues
                log.error("what is old of queue %d of %s stays: %s", key[1], key[0], error)
        self.swept_to = log_start

    def _forget_of(self, key: Key, log_start: int) -> list[Path]:
        if key not in self._queues and (
            key[0] in self._leaving or not self._loses_a_file(key, log_start)
        ):
            return []
        before = self._spans.get(key)
        queue = self.get(*key)
        oldest = queue.unit(queue.first)
        if oldest is not None and oldest[0] < log_start:
            queue.forget_before(log_start)
        self._note(key, queue)
        return [] if self._spans.get(key) == before else queue.files_before_first()

    def _loses_a_file(self, key: Key, log_start: int) -> bool:
        """Whether its first file can be deleted, by the last unit of that file."""
        first, last = self._spans.get(key, (0, 0))
        if first == last:
            return False
        path = self._folder_of(*key) / name_of(first)
        unit = self._disk.read_at(path, self._file_size - UNIT_SIZE, UNIT_SIZE)
        return len(unit) == UNIT_SIZE and UNIT.unpack(unit)[0] < log_start

    # Deleting topics

    def leave(self, topic: str) -> None:
        """Empty a topic. It accepts no message until its files are deleted, if it has any."""
        queues = [self._queues.pop(key) for key in list(self._queues) if key[0] == topic]
        for queue in queues:
            self._kept.forget(queue)
        if any(queue.end for queue in queues) or self._files_of([topic]):
            self._leaving.add(topic)

    @property
    def leaving(self) -> frozenset[str]:
        """Topics whose files must be deleted."""
        return frozenset(self._leaving)

    def forget(self, topics: Collection[str], log_end: int) -> list[Path]:
        """Remove topics from the manifest; returns their files, which the caller deletes.

        A new topic with the same name never gets records before `log_end`.
        """
        self.has_changed = True
        self._deleted.update(dict.fromkeys(topics, log_end))
        for key in [key for key in {**self._spans, **self._bounds} if key[0] in topics]:
            self._spans.pop(key, None)
            self._bounds.pop(key, None)
        return self._files_of(topics)

    def gone(self, topics: Collection[str]) -> None:
        """The files are deleted; topics with these names accept messages again."""
        self._leaving.difference_update(topics)

    def _files_of(self, topics: Iterable[str]) -> list[Path]:
        places = [self._folder / topic for topic in topics]
        places += [extension_of(place) for place in places]
        folders = [place / name for place in places for name in self._disk.names(place)]
        return [path for folder in folders for path in self._files_in(folder)]

    def _files_in(self, folder: Path) -> list[Path]:
        """The queue files of a folder; other files are not ours."""
        return [folder / name_of(base) for base in file_bases(self._disk, folder)]

    def _delete_left(self, topic: str) -> None:
        try:
            for path in self._files_of([topic]):
                self._disk.delete(path)
        except OSError as error:  # the topic accepts no message until a flush has deleted them
            log.error("files of topic %s, which was deleted, stay: %s", topic, error)
            self._leaving.add(topic)

    @property
    def deleted(self) -> Mapping[str, int]:
        """Deleted topics, and the end of the log at their deletion."""
        return self._deleted
