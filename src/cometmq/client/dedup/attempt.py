"""One key on its way through the two phases: what a store is asked, and what it says."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class KeyVerdict(Enum):
    """What to do with a message."""

    RUN = "run"
    SKIP = "skip"
    LATER = "later"


class DedupStore(Protocol):
    """Keys in progress and done. Any thread may call it."""

    @property
    def blocks(self) -> bool:
        """It waits for a disk, so not on the loop."""

    def begin(self, key: str, owner: str, lease_ms: int) -> KeyVerdict:
        """The first phase: RUN means that the owner has the key now."""

    def done(self, key: str, retention_ms: int) -> None:
        """The second phase; true whoever had the key, as the work is done."""

    def release(self, key: str, owner: str) -> None:
        """The work failed: the next one may have the key, if it is still this owner's."""


@dataclass(frozen=True, slots=True)
class KeyAttempt:
    """The verdict for one message; after RUN, one of the two verbs ends it."""

    verdict: KeyVerdict
    key: str
    _store: DedupStore
    _owner: str
    _retention_ms: int

    def done(self) -> None:
        """The work is done: the key is skipped from now on."""
        self._store.done(self.key, self._retention_ms)

    def release(self) -> None:
        """The work failed: the message may be tried again at once."""
        self._store.release(self.key, self._owner)

    def end(self, is_done: bool) -> None:
        """One or the other."""
        if is_done:
            self.done()
        else:
            self.release()
