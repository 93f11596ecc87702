"""Opens a store: decides which parts are trusted, and rebuilds the others from the log.

The offsets of the checkpoint are trusted if the crc of the log before them matches. Then only the
manifest is compared with the files before these offsets. Otherwise Apache's broker or an operator
changed the store: only the times are used, and the last file is walked from its beginning.
"""

import logging
import os

import msgspec
from msgspec.structs import replace

from cometmq.log_event import LogEvent
from cometmq.seams import Disk
from cometmq.store.disk_full import is_full
from cometmq.store.files import StoreFiles
from cometmq.store.queue.queue_table import Key
from cometmq.store.recovery.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from cometmq.store.recovery.lost_tail import check_by_checkpoint, check_by_units, is_loss_accepted
from cometmq.store.recovery.manifest import Manifest, read_manifest
from cometmq.store.recovery.recovery import (
    NEVER,
    Recovered,
    RecoveryParts,
    Starts,
    recover,
    safe_start,
    starts_after_crash,
)

log = logging.getLogger(__name__)


class Opening(msgspec.Struct, frozen=True):
    """Opens the log, the queues and the index of one store."""

    files: StoreFiles
    disk: Disk
    parts: RecoveryParts

    def run(self) -> Recovered:
        """Load all parts and recover them. The abort file exists from now on."""
        disk, files, parts = self.disk, self.files, self.parts
        unclean = files.abort.name in disk.names(files.root)
        parts.log.load(log.warning)
        is_accepted = is_loss_accepted(files, disk)
        read = read_checkpoint(disk, files.checkpoint)
        has_loss = check_by_checkpoint(parts.log, read.log_end, files, is_accepted)
        checkpoint = self._believed(read)
        manifest = read_manifest(disk, files.manifest) if checkpoint.log_end >= 0 else None
        lost = parts.queues.load(manifest)
        _report(lost)
        if not unclean and read.log_end < 0:
            has_loss = check_by_units(parts.log, parts.queues, files, is_accepted)
        if has_loss:
            parts.queues.keep_ends(parts.log.end)
        if manifest is None and self._lost_a_folder():
            log.warning("queues or index are gone: they are made again from the log")
            unclean, checkpoint = True, checkpoint.of_log_alone()
        if parts.index is not None:
            disk.names(files.index)  # fails before anything is written if it is not a folder
        self._leave_abort_file()
        index_from = self._load_index(unclean, checkpoint, manifest)
        if unclean or checkpoint.log_end >= 0:
            starts = starts_after_crash(parts.log, checkpoint, index_from)
        else:
            starts = Starts(safe_start(parts.log, NEVER), index=index_from)
        starts = replace(starts, lost=frozenset(lost))
        if not has_loss:  # otherwise an interrupted start must find the same state
            self._vouch_for_less(read, checkpoint, starts)
        parts.queues.clear(lost)
        recovered = recover(parts, starts)
        suspects = parts.queues.suspects(unclean or has_loss)
        if suspects:
            _report(suspects)
            starts = replace(starts, lost=starts.lost | suspects.keys())
            if not has_loss:
                self._vouch_for_less(read, checkpoint, starts)
            parts.queues.clear(starts.lost)
            recovered = recover(parts, starts)
        if checkpoint != read and recovered.end < read.log_end:
            log.error(
                "the log ends at %d: records up to %d were on disk, as %s says; the rest is lost",
                recovered.end,
                read.log_end,
                files.checkpoint,
            )
        log.log(
            logging.INFO if unclean else logging.DEBUG,
            LogEvent(
                "store recovered",
                clean_stop=not unclean,
                checked_from=starts.first(parts.log.start),
                log_end=recovered.end,
                bad_ranges=len(recovered.bad),
                rebuilt_units=recovered.redispatched,
                rebuilt_queues=recovered.rebuilt_queues,
            ),
        )
        return recovered

    def _leave_abort_file(self) -> None:
        """With our pid. On a full disk the one that is there or an empty one: no block."""
        try:
            self.disk.replace(self.files.abort, str(os.getpid()).encode())
        except OSError as error:
            if not is_full(error):
                raise
            self.disk.write_at(self.files.abort, 0, b"", 0)

    def _believed(self, checkpoint: Checkpoint) -> Checkpoint:
        commit_log, end = self.parts.log, checkpoint.log_end
        is_there = commit_log.start <= end <= commit_log.end
        if is_there and commit_log.tail_crc(end) == checkpoint.tail_crc:
            return checkpoint
        return checkpoint.of_times_alone()

    def _lost_a_folder(self) -> bool:
        """There is a log, but not what points into it."""
        folders = [self.files.queues]
        if self.parts.index is not None:
            folders.append(self.files.index)
        return bool(self.parts.log.files) and not all(self.disk.names(path) for path in folders)

    def _load_index(
        self, unclean: bool, checkpoint: Checkpoint, manifest: Manifest | None
    ) -> int | None:
        """From where on keys are put again; None if they are all there, or there is no index."""
        index = self.parts.index
        if index is None:
            return None
        is_whole = index.load(
            unclean,
            checkpoint.index_end,
            checkpoint.index_ms,
            log.warning,
            () if manifest is None else manifest.index,
        )
        if is_whole and checkpoint.index_end >= 0:
            end = checkpoint.index_end
            return min(end, index.end_offset) if index.was_cut else end
        return None if is_whole and not unclean and checkpoint.log_end < 0 else index.end_offset

    def _vouch_for_less(self, read: Checkpoint, checkpoint: Checkpoint, starts: Starts) -> None:
        """Until a part is whole again, no checkpoint may vouch for it.

        Nor for the end of a log that is not the one it saw, and may be cut.
        """
        vouched = checkpoint
        if starts.lost or starts.queues != checkpoint.queues_end:
            vouched = vouched.without_queues()
        if starts.index not in (None, checkpoint.index_end):
            vouched = vouched.without_index()
        is_less = starts.lost or starts.queues is not None
        if read.log_end != checkpoint.log_end or (vouched != checkpoint and is_less):
            write_checkpoint(self.disk, self.files.checkpoint, vouched)


def _report(lost: dict[Key, str]) -> None:
    for (topic, queue_id), reason in lost.items():
        log.error("%s: queue %d of %s is rebuilt from the log", reason, queue_id, topic)
