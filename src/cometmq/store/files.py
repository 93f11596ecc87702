"""Paths of the files of a store, in the layout of Apache RocketMQ 4.9.7."""

from dataclasses import dataclass
from pathlib import Path

from cometmq.errors import BadSetting
from cometmq.store.config import StoreConfig
from cometmq.store.queue.queue_extension import EXTENSIONS


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """Paths of one store, below its root folder."""

    root: Path
    commit_log: Path

    @classmethod
    def of(cls, config: StoreConfig) -> "StoreFiles":
        root, log = Path(config.store_path_root_dir), config.store_path_commit_log
        if "," in log:  # Apache reads this as several folders
            raise BadSetting(f"storePathCommitLog={log}: this version has one folder for the log")
        return cls(root, Path(log or root / "commitlog"))

    @property
    def queues(self) -> Path:
        return self.root / "consumequeue"

    @property
    def extensions(self) -> Path:
        """Extensions of queues: topic/queue id/file."""
        return self.root / EXTENSIONS

    @property
    def index(self) -> Path:
        """Index files, named by their creation time."""
        return self.root / "index"

    @property
    def checkpoint(self) -> Path:
        """Offsets and times up to which each part is on disk."""
        return self.root / "checkpoint"

    @property
    def manifest(self) -> Path:
        """The list of queue and index files."""
        return self.root / "manifest"

    @property
    def abort(self) -> Path:
        """Exists while a broker runs, and after a crash."""
        return self.root / "abort"

    @property
    def accepted_loss(self) -> Path:
        """Created by an operator to start without missing log files; removed after the start."""
        return self.root / "accept_lost_messages"

    @property
    def lock(self) -> Path:
        """Locked by the process that uses the store."""
        return self.root / "lock"
