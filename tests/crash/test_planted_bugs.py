"""A test of the tests: each of these bugs, planted in the store, is caught by the power cuts."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from cometmq.errors import PeerError, WorldError
from cometmq.store import (
    checkpoint,
    commit_log,
    consume_queue,
    dispatcher,
    flusher,
    housekeeping,
    walk,
)
from cometmq.testing.shadow_disk import ShadowDisk, ShadowFile
from crash.histories import KINDS, crash_states

SEEDS = 4  # histories of each kind, at most

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
    patch.setattr(commit_log, "_zero", lambda memory, start: False)


def truncation_in_memory_only(patch: pytest.MonkeyPatch) -> None:
    def cut(self: consume_queue.ConsumeQueue, end: int, stale_end: int | None = None) -> None:
        self._written, self._kept, self.end = min(self._written, end), end, end
        self.first = min(self.first, end)
        self._units.clear()

    patch.setattr(consume_queue.ConsumeQueue, "cut", cut)
    patch.setattr(commit_log, "_zero", lambda memory, start: False)


def only_the_first_file_is_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(flusher, "sync_all", lambda regions: regions[0].sync())


def only_the_last_file_is_synced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(flusher, "sync_all", lambda regions: regions[-1].sync())


def checkpoint_without_the_queues(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(housekeeping, "_write_all", lambda disk, writes: None)


def checkpoint_without_the_index(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(housekeeping, "sync_all", lambda regions: None)


def checkpoint_too_far(patch: pytest.MonkeyPatch) -> None:
    write = checkpoint.write_checkpoint

    def far(disk: ShadowDisk, path: Path, page: checkpoint.Checkpoint) -> None:
        ends = {"log_end": page.log_end + 500, "queues_end": page.queues_end + 500}
        write(disk, path, msgspec.structs.replace(page, **ends))

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


def holes_are_kept(patch: pytest.MonkeyPatch) -> None:
    bad = walk._bad
    patch.setattr(walk, "_bad", lambda *all_: msgspec.structs.replace(bad(*all_), is_torn=False))


def torn_properties_are_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(walk, "_lacks_a_sector", lambda *all_: False)


def no_crc(patch: pytest.MonkeyPatch) -> None:
    unpack = walk.unpack_record
    patch.setattr(walk, "unpack_record", lambda data, at: unpack(data, at, check_crc=False))


def queues_are_not_made_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(dispatcher.Requeueing, "put", lambda self, message, size: None)


def abort_file_is_not_seen(patch: pytest.MonkeyPatch) -> None:
    names = ShadowDisk.names
    patch.setattr(
        ShadowDisk,
        "names",
        lambda self, folder: [name for name in names(self, folder) if name != "abort"],
    )


BUGS: list[Plant] = [
    ack_before_flush, no_sync_of_folders, sync_does_nothing, truncation_forgotten,
    truncation_in_memory_only, only_the_first_file_is_synced, only_the_last_file_is_synced,
    checkpoint_without_the_queues, checkpoint_without_the_index, checkpoint_too_far,
    killed_counts_as_flushed, names_of_a_killed_process, holes_are_kept, torn_properties_are_kept,
    no_crc, queues_are_not_made_again, abort_file_is_not_seen,
]  # fmt: skip


@pytest.mark.parametrize("plant", BUGS, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_caught(plant, monkeypatch):
    plant(monkeypatch)
    for seed in range(SEEDS):
        for kind in KINDS:
            try:
                asyncio.run(crash_states(kind, seed))
            except (AssertionError, LookupError, ValueError, OSError, PeerError, WorldError):
                return
    pytest.fail("nobody noticed")
