"""Tests of the crash tests: each of these bugs, planted in the store, is detected."""

import asyncio
import os
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from cometmq.errors import PeerError, WorldError
from cometmq.store import housekeeping, state_file
from cometmq.store.index import index_file
from cometmq.store.log import commit_log, flusher, walk
from cometmq.store.queue import consume_queue, file_runs, queue_files, queue_table
from cometmq.store.recovery import checkpoint, rebuild, recovery
from crash.histories import CLEANING_KINDS, KINDS, crash_states
from crash.rig import EVERY_KEY
from crash.shadow_disk import ShadowDisk
from crash.shadow_files import ShadowFile
from crash.test_bit_flips import flip_some
from crash.test_failed_sync import cut_after_a_restart
from crash.test_index_recovery import half_an_entry
from crash.test_kill_then_cut import kill_then_cut
from crash.test_queue_file_gaps import lose_a_queue_file
from crash.test_torn_tail import SHAPES, tear

SEEDS = 4  # histories of each kind, at most
CLEANING_IMAGES = 0.2  # a step of the disk, of those where log files are cleaned

Plant = Callable[[pytest.MonkeyPatch], None]
pytestmark = [
    pytest.mark.timeout(1800),
    pytest.mark.skipif(
        "COMETMQ_CAMPAIGN" not in os.environ,
        reason="takes minutes: set COMETMQ_CAMPAIGN=1 to plant the bugs and see them caught",
    ),
]


def ack_before_flush(patch: pytest.MonkeyPatch) -> None:
    def durable(self: flusher.Flusher, end: int) -> "asyncio.Future[None]":
        future = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future

    patch.setattr(flusher.Flusher, "durable", durable)


def no_sync_of_folders(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShadowDisk, "_sync_folder", lambda self, folder: self.step())


def sync_does_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ShadowFile, "sync", lambda self: None)


def truncation_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit_log, "_zero", lambda region, start: False)


def truncation_in_memory_only(patch: pytest.MonkeyPatch) -> None:
    def cut(self: consume_queue.ConsumeQueue, end: int, stale_end: int | None = None) -> None:
        self._written, self._kept, self.end = min(self._written, end), end, end
        self.first = min(self.first, end)
        self._units.clear()

    patch.setattr(consume_queue.ConsumeQueue, "cut", cut)
    patch.setattr(commit_log, "_zero", lambda region, start: False)


def only_the_first_file_is_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(flusher, "sync_all", lambda regions: regions[0].sync())


def only_the_last_file_is_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(flusher, "sync_all", lambda regions: regions[-1].sync())


def checkpoint_without_the_queues(patch: pytest.MonkeyPatch) -> None:
    write = ShadowDisk.write_all

    def without_units(self: ShadowDisk, writes: Sequence[tuple[Path, int, bytes, int]]) -> None:
        """Remove the queue files and the manifest that would reveal it."""
        write(self, [(path, 0, b"", size) for path, _, _, size in writes])

    patch.setattr(ShadowDisk, "write_all", without_units)


def checkpoint_without_the_index(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(housekeeping, "sync_all", lambda regions: None)


def checkpoint_too_far(patch: pytest.MonkeyPatch) -> None:
    write = checkpoint.write_checkpoint

    def far(disk: ShadowDisk, path: Path, page: checkpoint.Checkpoint) -> None:
        ends = {"log_end": page.log_end + 500, "queues_end": page.queues_end + 500}
        write(disk, path, msgspec.structs.replace(page, **ends))

    patch.setattr(commit_log.CommitLog, "tail_crc", lambda self, end: 0)
    patch.setattr(housekeeping, "write_checkpoint", far)


def killed_counts_as_flushed(patch: pytest.MonkeyPatch) -> None:
    start = flusher.Flusher.__init__

    def init(self: flusher.Flusher, log: commit_log.CommitLog, *rest: object) -> None:
        start(self, log, rest[0])
        self.flushed = log.end

    patch.setattr(flusher.Flusher, "__init__", init)


def names_of_a_killed_process(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit_log, "sync_names", lambda disk, folder: None)
    patch.setattr(consume_queue, "sync_names", lambda disk, folder: None)


def tail_is_not_written_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(recovery, "_rewrite", lambda log, start, end: None)


def holes_are_kept(patch: pytest.MonkeyPatch) -> None:
    bad = walk._bad
    patch.setattr(walk, "_bad", lambda *all_: msgspec.structs.replace(bad(*all_), is_torn=False))


def torn_properties_are_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(walk, "_lacks_a_sector", lambda *all_: False)


def no_crc(patch: pytest.MonkeyPatch) -> None:
    class Anything(int):
        def __and__(self, other: int) -> "Anything":
            return self

        def __ne__(self, other: object) -> bool:
            return False

    patch.setattr(walk, "crc32", lambda body: Anything())


def table_is_written_in_place(patch: pytest.MonkeyPatch) -> None:
    def write(self: state_file.StateFile, content: bytes) -> None:
        self._disk.write_at(self._path, 0, content, len(content))

    patch.setattr(state_file.StateFile, "write", write)


def table_has_no_backup(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        state_file.StateFile, "write", lambda self, content: self._disk.replace(self._path, content)
    )


def half_an_index_entry_is_believed(patch: pytest.MonkeyPatch) -> None:
    def is_below(
        self: index_file.IndexFile, number: int, physical_offset: int, has_key: object
    ) -> bool:
        key_hash, offset, seconds, _ = self._entry(number)
        return bool((key_hash or offset or seconds) and offset < physical_offset)

    patch.setattr(index_file.IndexFile, "_is_below", is_below)


def queues_are_not_made_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(rebuild.QueueRebuilder, "put", lambda self, *record: None)


def a_topic_takes_messages_while_it_is_deleted(patch: pytest.MonkeyPatch) -> None:
    """Accept messages into a new queue, as if the old one could not come back."""

    def open_to_puts(
        self: queue_table.QueueTable, topic: str, queue_id: int
    ) -> consume_queue.ConsumeQueue:
        return self._queues.setdefault((topic, queue_id), self.get(topic, queue_id))

    patch.setattr(queue_table.QueueTable, "open_to_puts", open_to_puts)


def files_of_deleted_topics_are_believed(patch: pytest.MonkeyPatch) -> None:
    delete = ShadowDisk.delete

    def not_of_queues(self: ShadowDisk, path: Path) -> None:
        if path.parent.parent.parent.name != "consumequeue":
            delete(self, path)

    patch.setattr(ShadowDisk, "delete", not_of_queues)


def abort_file_is_not_seen(patch: pytest.MonkeyPatch) -> None:
    names = ShadowDisk.names
    patch.setattr(
        ShadowDisk,
        "names",
        lambda self, folder: [name for name in names(self, folder) if name != "abort"],
    )


def log_files_are_dropped_before_their_units_are_durable(patch: pytest.MonkeyPatch) -> None:
    """Drop files as soon as the log is durable, while queues and index may be in memory only."""
    create = housekeeping.Housekeeping.__init__

    class LogOnly:
        def __init__(self, state, flusher):
            self._state, self._flusher = state, flusher

        failure = property(lambda self: self._state.failure)
        vouched_end = property(lambda self: self._flusher.flushed)

    def created(self, *given):
        create(self, *given)
        self._retention._flushed = LogOnly(self._flushed, self._flusher)

    patch.setattr(housekeeping.Housekeeping, "__init__", created)


def log_files_are_deleted_newest_first(patch: pytest.MonkeyPatch) -> None:
    delete = housekeeping._delete_old
    patch.setattr(
        housekeeping, "_delete_old", lambda disk, paths, *rest: delete(disk, paths[::-1], *rest)
    )


def gaps_between_queue_files_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(queue_files, "newest_run", lambda bases, *_: bases)
    patch.setattr(queue_table.QueueTable, "_has_all", lambda self, key, span: True)


def cut_units_count_as_old_ones(patch: pytest.MonkeyPatch) -> None:
    """Treat zeros, which a crash during a truncation leaves, as units of cleaned records."""

    def forget_before(self: consume_queue.ConsumeQueue, log_start: int) -> None:
        offsets = range(self.first, self.end)
        self.first += bisect_left(offsets, log_start, key=lambda offset: self.unit(offset)[0])

    patch.setattr(consume_queue.ConsumeQueue, "forget_before", forget_before)


def a_cleaned_queue_loses_its_last_file(patch: pytest.MonkeyPatch) -> None:
    """The queue then does not know its end."""
    span = consume_queue.ConsumeQueue.span.fget
    assert span is not None
    patch.setattr(
        consume_queue.ConsumeQueue,
        "span",
        property(lambda self: None if self.is_empty else span(self)),
    )
    patch.setattr(
        consume_queue.ConsumeQueue,
        "files_before_first",
        lambda self: [
            self._folder / commit_log.name_of(base)
            for base in file_runs.file_bases(self._disk, self._folder)
            if self.is_empty or base < span(self)[0]
        ],
    )


def power_cuts(kinds: Sequence[str] = KINDS) -> Iterator[str]:
    for seed in range(SEEDS):
        for kind in kinds:
            yield f"power cuts: {kind}, seed {seed}"
            asyncio.run(crash_states(kind, seed, EVERY_KEY))


def deletions() -> Iterator[str]:
    return power_cuts([kind for kind in KINDS if "deleting" in kind])


def cleanings() -> Iterator[str]:
    for seed in range(SEEDS):
        for kind in CLEANING_KINDS:
            yield f"power cuts: {kind}, seed {seed}"
            asyncio.run(crash_states(kind, seed, EVERY_KEY, CLEANING_IMAGES))


def gaps() -> Iterator[str]:
    for seed in range(SEEDS):
        yield f"a queue lost a file: seed {seed}"
        asyncio.run(lose_a_queue_file(seed))


def kills() -> Iterator[str]:
    for seed in range(SEEDS):
        yield f"kills, then power cuts: seed {seed}"
        asyncio.run(kill_then_cut(seed))


def torn_index() -> Iterator[str]:
    for seed in range(30):
        yield f"half an entry: seed {seed}"
        asyncio.run(half_an_entry(seed))


def failed_syncs() -> Iterator[str]:
    for seed in range(SEEDS):
        yield f"a failed sync, a restart and a cut: seed {seed}"
        asyncio.run(cut_after_a_restart(seed))


def bit_flips() -> Iterator[str]:
    yield "bit flips"
    flip_some(clean=False, again=True, flips=2000)


def torn_tail() -> Iterator[str]:
    for number in range(len(SHAPES)):
        yield f"torn tail: shape {number}"
        tear(number, 7)


BUGS: dict[Plant, Callable[[], Iterator[str]]] = {
    ack_before_flush: power_cuts,
    no_sync_of_folders: power_cuts,
    sync_does_nothing: power_cuts,
    truncation_forgotten: power_cuts,
    truncation_in_memory_only: power_cuts,
    only_the_first_file_is_synced: power_cuts,
    only_the_last_file_is_synced: power_cuts,
    checkpoint_without_the_queues: power_cuts,
    checkpoint_without_the_index: power_cuts,
    checkpoint_too_far: power_cuts,
    killed_counts_as_flushed: power_cuts,
    names_of_a_killed_process: kills,
    tail_is_not_written_again: failed_syncs,
    holes_are_kept: power_cuts,
    torn_properties_are_kept: torn_tail,
    no_crc: bit_flips,
    queues_are_not_made_again: power_cuts,
    abort_file_is_not_seen: power_cuts,
    a_topic_takes_messages_while_it_is_deleted: deletions,
    files_of_deleted_topics_are_believed: deletions,
    table_is_written_in_place: power_cuts,
    table_has_no_backup: power_cuts,
    half_an_index_entry_is_believed: torn_index,
    log_files_are_dropped_before_their_units_are_durable: cleanings,
    log_files_are_deleted_newest_first: cleanings,
    a_cleaned_queue_loses_its_last_file: cleanings,
    cut_units_count_as_old_ones: cleanings,
    gaps_between_queue_files_are_ignored: gaps,
}
CAUGHT = (AssertionError, LookupError, ValueError, OSError, PeerError, WorldError)


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_planted_bugs_are_detected(plant, monkeypatch):
    plant(monkeypatch)
    by = ""
    with pytest.raises(CAUGHT) as caught:
        for by in BUGS[plant]():  # noqa: B007 - used in the message
            pass
    print(f"{plant.__name__}: {by}: {str(caught.value)[-150:]}")
