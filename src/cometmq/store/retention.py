"""Which files are too old, or the disk too full, and their deletion: the log first, then the rest.

    over 75 % of the disk   files past their time go at any hour, not only at `deleteWhen`
    over 85 %               the oldest go, past their time or not (`cleanFileForciblyEnable`)
    over 90 %               and messages of producers are refused until there is room

The file in use is never deleted, nor one whose units and keys are not all on disk: after a crash
the queues could not tell where they ended. While queues cannot be written, old log files stay, and
an error is logged. A reader that holds a view of a deleted file keeps it. Of the log and the index
files are forgotten at once; the queues, which may be many, are told by `sweep`, and a reader that
comes before it passes over what is gone. The deletion itself takes long, and is done off the loop
by who asks for `doomed`.
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
_QUIET_ROUNDS = 6  # that a file may stay past its time before it is reported
_ROUNDS_BY_HAND = 20  # who asks for old files to go has them all gone, some at each round
QUEUES_A_TURN = 8  # of the loop
_HOUR_MS = 3_600_000


class CleaningPlan(msgspec.Struct, frozen=True):
    """What the state of the disk and the hour call for."""

    expired_go: bool
    any_go: bool
    puts_stop: bool


def plan_cleaning(
    config: StoreConfig, used_ratio: float, hour: int, *, by_hand: bool
) -> CleaningPlan:
    """A pure rule, so that it can be read and tested without a disk."""
    hours = {int(text) for text in config.delete_when.split(";") if text.strip().isdigit()}
    is_time = hour in hours
    tight = used_ratio > config.disk_max_used_space_ratio / 100
    forced = used_ratio > FORCED_RATIO and config.clean_file_forcibly_enable
    return CleaningPlan(
        expired_go=is_time or tight or by_hand, any_go=forced, puts_stop=used_ratio > FULL_RATIO
    )


class Retention:
    """Cleans one store."""

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
        """Judge by other settings from now on."""
        self._config = config

    def clean(self, *, by_hand: bool = False) -> int:
        """Look once, forget what must go; the number of log files that went.

        By hand, at any hour: this time and the next ones, as a round takes few.
        """
        if by_hand:
            self._rounds_by_hand = _ROUNDS_BY_HAND
            self._doubt.dismiss()  # who asks for it after a jump knows what time it is
        by_hand = self._rounds_by_hand > 0
        self._rounds_by_hand -= by_hand
        now_ms = self._clock.wall_ms()
        hour = datetime.fromtimestamp(now_ms / 1000).hour
        folder, used_ratio = self._fullest()
        plan = plan_cleaning(self._config, used_ratio, hour, by_hand=by_hand)
        if plan.puts_stop != self.puts_stop:
            self.puts_stop = plan.puts_stop
            self._log_whether_full(folder, used_ratio)
            self._is_reported = False  # a file that stays now matters more: say it again
        if self._doubt.holds():
            plan = replace(plan, expired_go=False)
        gone = self._drop_log_files(plan, now_ms)
        if self._index is not None:
            self._doomed_regions += self._index.forget_before(self._log.start)
        return gone

    async def sweep(self) -> None:
        """Tell the queues where the log starts now, a few at a time: others have their turn."""
        start = self._log.start
        if start > self._queues.swept_to:
            for number, paths in enumerate(self._queues.forget_before(start), 1):
                self._doomed_paths += paths
                if number % QUEUES_A_TURN == 0:
                    await asyncio.sleep(0)

    def _fullest(self) -> tuple[Path, float]:
        """The folder whose file system is used most, and how much."""
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
        """Once when files begin to stay past their time, once when they go again."""
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
        """The failed flush that keeps old files from being deleted, if one does."""
        return self._flushed.failure if self._rounds_held else None

    def doom(self, paths: Iterable[Path]) -> None:
        """Have these files deleted, too."""
        self._doomed_paths += paths

    def doomed(self) -> tuple[list[Region], list[Path]]:
        """Mapped files to be closed, told once; the paths of all to be deleted, until `gone`."""
        regions, self._doomed_regions = self._doomed_regions, []
        self._doomed_paths += [region.path for region in regions]
        return regions, list(self._doomed_paths)

    def gone(self, paths: list[Path]) -> None:
        """These are deleted. Others that `doomed` returned are returned again."""
        deleted = set(paths)
        self._doomed_paths = [path for path in self._doomed_paths if path not in deleted]
