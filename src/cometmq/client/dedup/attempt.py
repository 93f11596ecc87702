"""One key in the two phases of deduplication, and the interface of stores."""

from dataclasses import dataclass
from enum import Enum
from typing import Protocol


class KeyVerdict(Enum):
    """What to do with a message: run the function, skip it, or redeliver the message later."""

    RUN = "run"
    SKIP = "skip"
    LATER = "later"


class DedupStore(Protocol):
    """A store of keys that are in progress or done. Its methods are thread-safe."""

    @property
    def blocks(self) -> bool:
        """True if its methods block, for example on a disk: then they run in a thread."""

    def begin(self, key: str, owner: str, lease_ms: int) -> KeyVerdict:
        """The first phase. RUN means that the owner has acquired the key for `lease_ms`."""

    def done(self, key: str, retention_ms: int) -> None:
        """The second phase: the key is done for `retention_ms`, whichever owner had acquired it."""

    def release(self, key: str, owner: str) -> None:
        """The function failed: free the key, if this owner still has it."""


@dataclass(frozen=True, slots=True)
class KeyAttempt:
    """The verdict for one message; after RUN, call `done` or `release`."""

    verdict: KeyVerdict
    key: str
    _store: DedupStore
    _owner: str
    _retention_ms: int

    def done(self) -> None:
        """The function succeeded: the key is skipped from now on."""
        self._store.done(self.key, self._retention_ms)

    def release(self) -> None:
        """The function failed: the message may be processed again immediately."""
        self._store.release(self.key, self._owner)

    def end(self, is_done: bool) -> None:
        """Call `done` or `release`."""
        if is_done:
            self.done()
        else:
            self.release()
