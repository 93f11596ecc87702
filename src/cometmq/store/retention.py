"""Which files are too old, or the disk too full, and their deletion: the log first, then the rest.

    over 75 % of the disk   files past their time go at any hour, not only at `deleteWhen`
    over 85 %               the oldest go, past their time or not (`cleanFileForciblyEnable`)
    over 90 %               and puts are refused until there is room

The file in use is never deleted, and a reader that holds a view of a deleted one keeps it.
"""

import logging
from datetime import datetime

import msgspec

from cometmq.seams import Clock, Disk
from cometmq.store.commit_log import CommitLog
from cometmq.store.config import StoreConfig
from cometmq.store.files import StoreFiles
from cometmq.store.index import Index
from cometmq.store.queue_table import QueueTable

log = logging.getLogger(__name__)

FORCED_RATIO = 0.85
FULL_RATIO = 0.90
_FILES_A_ROUND_MAX = 10
_HOUR_MS = 3_600_000


class Verdict(msgspec.Struct, frozen=True):
    """What the state of the disk and the hour call for."""

    expired_go: bool
    any_go: bool
    puts_stop: bool


def judge(config: StoreConfig, used_ratio: float, hour: int, *, by_hand: bool) -> Verdict:
    """A pure rule, so that it can be read and tested without a disk."""
    hours = {int(text) for text in config.delete_when.split(";") if text.strip().isdigit()}
    is_time = hour in hours
    tight = used_ratio > config.disk_max_used_space_ratio / 100
    forced = used_ratio > FORCED_RATIO and config.clean_file_forcibly_enable
    return Verdict(
        expired_go=is_time or tight or by_hand,
        any_go=forced,
        puts_stop=used_ratio > FULL_RATIO,
    )


class Retention:
    """Cleans one store."""

    def __init__(
        self, config: StoreConfig, files: StoreFiles, disk: Disk, clock: Clock,
        commit_log: CommitLog, queues: QueueTable, index: Index | None,
    ) -> None:  # fmt: skip
        self._config = config
        self._files = files
        self._disk = disk
        self._clock = clock
        self._log = commit_log
        self._queues = queues
        self._index = index
        self._cleaned_to = commit_log.start
        self.puts_stop = False

    def clean(self, *, by_hand: bool = False) -> int:
        """Look once, delete what must go; the number of log files that went."""
        now_ms = self._clock.wall_ms()
        hour = datetime.fromtimestamp(now_ms / 1000).hour
        verdict = judge(self._config, self._used_ratio(), hour, by_hand=by_hand)
        if verdict.puts_stop != self.puts_stop:
            log.warning(
                "the disk is %s", "full: no more puts" if verdict.puts_stop else "free again"
            )
            self.puts_stop = verdict.puts_stop
        gone = self._drop_log_files(verdict, now_ms)
        if self._log.start > self._cleaned_to:
            self._forget_before(self._log.start)
            self._cleaned_to = self._log.start
        return gone

    def _used_ratio(self) -> float:
        folders = (self._files.commit_log, self._files.root)
        return max(self._disk.used_ratio(folder) for folder in folders)

    def _drop_log_files(self, verdict: Verdict, now_ms: int) -> int:
        kept_ms = self._config.file_reserved_time * _HOUR_MS
        gone = 0
        while len(self._log.files) > 1 and gone < _FILES_A_ROUND_MAX:
            oldest = self._log.files[0]
            expired = now_ms - self._disk.modified_ms(oldest.region.path) > kept_ms
            if not (verdict.any_go or (verdict.expired_go and expired)):
                break
            log.info("%s deleted: %s", self._log.drop_oldest(), "old" if expired else "disk full")
            gone += 1
        return gone

    def _forget_before(self, log_start: int) -> None:
        for topic, queue_id in list(self._queues.known()):
            self._queues.get(topic, queue_id).forget_before(log_start)
        if self._index is not None:
            self._index.forget_before(log_start)
