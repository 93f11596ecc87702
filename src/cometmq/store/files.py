"""Where everything of a store is, under its root, as the original lays it out."""

from dataclasses import dataclass
from pathlib import Path

from cometmq.errors import BadSetting
from cometmq.store.config import StoreConfig
from cometmq.store.queue.queue_extension import EXTENSIONS


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """Paths of one store."""

    root: Path
    commit_log: Path

    @classmethod
    def of(cls, config: StoreConfig) -> "StoreFiles":
        """As the settings say."""
        root, log = Path(config.store_path_root_dir), config.store_path_commit_log
        if "," in log:  # several folders, to the original: a store there would seem empty
            raise BadSetting(f"storePathCommitLog={log}: this version has one folder for the log")
        return cls(root, Path(log or root / "commitlog"))

    @property
    def queues(self) -> Path:
        """topic/queue id/file."""
        return self.root / "consumequeue"

    @property
    def extensions(self) -> Path:
        """The same, for the extensions of queues."""
        return self.root / EXTENSIONS

    @property
    def index(self) -> Path:
        """Index files, named by the time they were made."""
        return self.root / "index"

    @property
    def checkpoint(self) -> Path:
        """Up to when what is on disk."""
        return self.root / "checkpoint"

    @property
    def manifest(self) -> Path:
        """Which files of queues and index there are."""
        return self.root / "manifest"

    @property
    def abort(self) -> Path:
        """Is there while a broker runs, and after it crashed."""
        return self.root / "abort"

    @property
    def accepted_loss(self) -> Path:
        """Made by an operator: start although log files are missing. Removed when that is done."""
        return self.root / "accept_lost_messages"

    @property
    def lock(self) -> Path:
        """Held by the process that uses the store."""
        return self.root / "lock"
