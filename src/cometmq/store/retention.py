"""Deletes old files, and more of them when the disk is too full: the log first, then the rest.

    over 75 % of the disk   expired files are deleted at any hour, not only at `deleteWhen`
    over 85 %               the oldest are deleted, expired or not (`cleanFileForciblyEnable`)
    over 90 %               and messages of producers are refused until there is room

The file in use is never deleted, nor one whose units and keys are not all on disk: after a crash
the queues could not tell where they ended. While queues cannot be written, old log files stay, and
an error is logged. A view of a deleted file stays valid. Files of the log and the index leave the
tables immediately. `sweep` then advances the queues, which may be many; an earlier reader skips
messages that are gone. `Housekeeping` takes the files from `doomed` and deletes them on a thread.
"""

import asyncio
import logging
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec.structs import replace

from cometmq.seams import Clock, Disk, Region
from cometmq.store.clock_doubt import ClockDoubt
from cometmq.store.config import StoreConfig
from cometmq.store.contents import FlushState, StoreContents
from cometmq.store.files import StoreFiles

log = logging.getLogger(__name__)

FORCED_RATIO = 0.85
FULL_RATIO = 0.90
_FILES_A_ROUND_MAX = 10
_QUIET_ROUNDS = 6  # in which an expired file may stay before it is reported
_ROUNDS_BY_HAND = 20  # rounds of a cleaning by hand, each with a few files
QUEUES_A_TURN = 8  # of the loop
_HOUR_MS = 3_600_000


class CleaningPlan(msgspec.Struct, frozen=True):
    """What to do, given the disk usage and the hour."""

    expired_go: bool
    any_go: bool
    puts_stop: bool


def plan_cleaning(
    config: StoreConfig, used_ratio: float, hour: int, *, by_hand: bool
) -> CleaningPlan:
    """The cleaning rule, without side effects."""
    hours = {int(text) for text in config.delete_when.split(";") if text.strip().isdigit()}
    is_time = hour in hours
    tight = used_ratio > config.disk_max_used_space_ratio / 100
    forced = used_ratio > FORCED_RATIO and config.clean_file_forcibly_enable
    return CleaningPlan(
        expired_go=is_time or tight or by_hand, any_go=forced, puts_stop=used_ratio > FULL_RATIO
    )


class Retention:
    """Selects the files of one store that are to be deleted."""

    def __init__(
        self,
        config: StoreConfig,
        files: StoreFiles,
        disk: Disk,
        clock: Clock,
        contents: StoreContents,
        flushed: FlushState,
    ) -> None:
        self._config = config
        self._files = files
        self._disk = disk
        self._clock = clock
        self._doubt = ClockDoubt(clock)
        self._log = contents.log
        self._queues = contents.queues
        self._index = contents.index
        self._flushed = flushed
        self._doomed_regions: list[Region] = []
        self._doomed_paths: list[Path] = []
        self._rounds_by_hand = 0
        self._rounds_held = 0  # in which a file was due and had to stay
        self._is_reported = False
        self.puts_stop = False

    def use(self, config: StoreConfig) -> None:
        """Use other settings from now on."""
        self._config = config

    def clean(self, *, by_hand: bool = False) -> int:
        """Do one round; returns the number of log files that were removed.

        By hand: at any hour, in this round and the next ones, because a round removes few files.
        """
        if by_hand:
            self._rounds_by_hand = _ROUNDS_BY_HAND
            self._doubt.dismiss()  # the administrator has seen the clock
        by_hand = self._rounds_by_hand > 0
        self._rounds_by_hand -= by_hand
        now_ms = self._clock.wall_ms()
        hour = datetime.fromtimestamp(now_ms / 1000).hour
        folder, used_ratio = self._fullest()
        plan = plan_cleaning(self._config, used_ratio, hour, by_hand=by_hand)
        if plan.puts_stop != self.puts_stop:
            self.puts_stop = plan.puts_stop
            self._log_whether_full(folder, used_ratio)
            self._is_reported = (
                False  # a file that cannot be deleted now matters more: log it again
            )
        if self._doubt.holds():
            plan = replace(plan, expired_go=False)
        gone = self._drop_log_files(plan, now_ms)
        if self._index is not None:
            self._doomed_regions += self._index.forget_before(self._log.start)
        return gone

    async def sweep(self) -> None:
        """Advance the queues to the start of the log, a few queues per turn of the loop."""
        start = self._log.start
        if start > self._queues.swept_to:
            for number, paths in enumerate(self._queues.forget_before(start), 1):
                self._doomed_paths += paths
                if number % QUEUES_A_TURN == 0:
                    await asyncio.sleep(0)

    def _fullest(self) -> tuple[Path, float]:
        """The folder with the fullest file system, and its used share."""
        folders = (self._files.commit_log, self._files.root)
        ratios = [(folder, self._disk.used_ratio(folder)) for folder in folders]
        return max(ratios, key=lambda pair: pair[1])

    def _log_whether_full(self, folder: Path, used_ratio: float) -> None:
        state = f"{used_ratio:.1%} of the disk of {folder} is used"
        if self.puts_stop:
            log.error(
                "messages of producers are refused: %s, more than %.0f %%, and %d bytes are free; "
                "free space there, or lower fileReservedTime (now %d hours) or "
                "diskMaxUsedSpaceRatio (now %d %%); cleanFileForciblyEnable is %s",
                state,
                FULL_RATIO * 100,
                self._disk.capacity(folder)[1],
                self._config.file_reserved_time,
                self._config.disk_max_used_space_ratio,
                str(self._config.clean_file_forcibly_enable).lower(),
            )
        else:
            log.warning("messages of producers are accepted again: %s", state)

    def _drop_log_files(self, plan: CleaningPlan, now_ms: int) -> int:
        kept_ms = self._config.file_reserved_time * _HOUR_MS
        gone = 0
        held: Path | None = None
        while len(self._log.files) > 1 and gone < _FILES_A_ROUND_MAX:
            oldest = self._log.files[0]
            expired = now_ms - self._disk.modified_ms(oldest.region.path) > kept_ms
            if not (plan.any_go or (plan.expired_go and expired)):
                break
            if oldest.end > self._flushed.vouched_end:
                held = oldest.region.path
                break
            region = self._log.drop_oldest()
            log.info("%s goes: %s", region.path, "old" if expired else "disk full")
            self._doomed_regions.append(region)
            gone += 1
        self._report_held(held)
        return gone

    def _report_held(self, held: Path | None) -> None:
        """Log once when expired files cannot be deleted, and once when they can be again."""
        if held is None:
            self._rounds_held = 0
            if self._is_reported:
                log.warning("old log files can be deleted again")
            self._is_reported = False
            return
        self._rounds_held += 1
        failure = self._flushed.failure
        is_due = failure is not None or self._rounds_held >= _QUIET_ROUNDS
        if is_due and not self._is_reported:
            self._is_reported = True
            log.error("%s", self._why_held(held, failure))

    def _why_held(self, held: Path, failure: OSError | None) -> str:
        why = (
            "no flush has completed since"
            if failure is None
            else f"the last flush failed: {failure}"
        )
        return (
            f"{held} is due to be deleted but stays, with all log files after it: queues and index"
            f" are on disk only up to offset {self._flushed.vouched_end}; {why}"
        )

    @property
    def blocked_by(self) -> OSError | None:
        """The error of the failed flush that prevents the deletion of old files, if any."""
        return self._flushed.failure if self._rounds_held else None

    def doom(self, paths: Iterable[Path]) -> None:
        """Add files to be deleted."""
        self._doomed_paths += paths

    def doomed(self) -> tuple[list[Region], list[Path]]:
        """Mapped files to close, each returned once, and all paths to delete until `gone`."""
        regions, self._doomed_regions = self._doomed_regions, []
        self._doomed_paths += [region.path for region in regions]
        return regions, list(self._doomed_paths)

    def gone(self, paths: list[Path]) -> None:
        """Note deleted files. Other paths stay in `doomed`."""
        deleted = set(paths)
        self._doomed_paths = [path for path in self._doomed_paths if path not in deleted]
