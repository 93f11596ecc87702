"""Stores of business keys that are in progress or done: in memory, or in a SQLite file."""

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cometmq.client.dedup.attempt import KeyVerdict
from cometmq.client.fields import Whole
from cometmq.errors import BadSetting, BadState, TimedOut
from cometmq.seams import Clock, RealClock

log = logging.getLogger(__name__)

KEYS_MAX = 100_000  # in memory
ROWS_MAX = 10_000_000
_PURGE_EVERY = 1000  # calls of `begin`
_BUSY_S_MAX = 5.0  # to wait for another process's transaction
_OPENING = (
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    # An owner of NULL means done.
    "CREATE TABLE IF NOT EXISTS dedup (key TEXT PRIMARY KEY, owner TEXT, until_ms INTEGER NOT NULL)"
    " WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS dedup_until ON dedup (until_ms)",
)


class MemoryStore:
    """Store keys in memory, for the consumers of one process.

    If it is full, keys that were done first are forgotten early; if all keys are in progress, more
    messages are redelivered later.

    Args:
        clock: For tests.
        keys_max: The most keys to store.
    """

    blocks = False

    def __init__(self, clock: Clock | None = None, keys_max: int = KEYS_MAX) -> None:
        Whole(KEYS_MAX, 1).check("keys_max", keys_max)
        self._now_ms = (clock or RealClock()).monotonic_ms
        self._keys_max = keys_max
        self._lock = threading.Lock()
        self._running: dict[str, tuple[str, int]] = {}  # owner, end of the lease
        self._done: dict[str, int] = {}  # end of the retention, in the order of completion

    def __len__(self) -> int:
        return len(self._running) + len(self._done)

    def begin(self, key: str, owner: str, lease_ms: int) -> KeyVerdict:
        """See DedupStore."""
        with self._lock:
            now_ms = self._now_ms()
            until_ms = self._done.get(key)
            if until_ms is not None:
                if until_ms > now_ms:
                    return KeyVerdict.SKIP
                del self._done[key]
            running = self._running.get(key)
            if running is not None and running[1] > now_ms:
                return KeyVerdict.LATER
            if running is None and not self._make_room(now_ms):
                return KeyVerdict.LATER
            self._running[key] = owner, now_ms + lease_ms
            return KeyVerdict.RUN

    def done(self, key: str, retention_ms: int) -> None:
        """See DedupStore."""
        with self._lock:
            self._running.pop(key, None)
            self._done.pop(key, None)  # to move it to the end
            self._make_room(self._now_ms())
            self._done[key] = self._now_ms() + retention_ms

    def release(self, key: str, owner: str) -> None:
        """See DedupStore."""
        with self._lock:
            if self._running.get(key, ("", 0))[0] == owner:
                del self._running[key]

    def _make_room(self, now_ms: int) -> bool:
        """Make room for one key; return False if all keys are in progress."""
        while self._done:
            first = next(iter(self._done))
            if len(self) < self._keys_max and self._done[first] > now_ms:
                break
            del self._done[first]
        if len(self) >= self._keys_max:
            self._running = {
                key: lease for key, lease in self._running.items() if lease[1] > now_ms
            }
        return len(self) < self._keys_max


class SqliteStore:
    """Store keys in a SQLite file, for all consumers of one machine.

    A key that is done is durable. Beyond `rows_max` keys, those that would expire first are deleted
    early.

    Args:
        path: The file; it is created if it does not exist.
        clock: For tests.
        rows_max: The most keys to store.

    Raises:
        BadSetting: `path` is not a path.
        BadState: The file cannot be opened.
    """

    blocks = True

    def __init__(
        self, path: Path | str, clock: Clock | None = None, rows_max: int = ROWS_MAX
    ) -> None:
        Whole(ROWS_MAX, 1).check("rows_max", rows_max)
        if not isinstance(path, str | Path):
            raise BadSetting(f"path is {path!r}: it must be the path of a file")
        self._path = str(path)
        # Wall time, because other processes read it.
        self._now_ms = (clock or RealClock()).wall_ms
        self._rows_max = rows_max
        self._lock = threading.Lock()
        self._begins = 0
        self._pid = os.getpid()
        self._connection = self._opened()
        self._inherited: list[sqlite3.Connection] = []

    def _opened(self) -> sqlite3.Connection:
        with self._faults():
            connection = sqlite3.connect(
                self._path, timeout=_BUSY_S_MAX, isolation_level=None, check_same_thread=False
            )
            for statement in _OPENING:
                try:
                    connection.execute(statement)
                except sqlite3.Error:
                    connection.close()
                    raise
            return connection

    def begin(self, key: str, owner: str, lease_ms: int) -> KeyVerdict:
        """See DedupStore. One statement decides, so that processes need no other lock."""
        now_ms = self._now_ms()
        with self._mine():
            self._begins += 1
            if self._begins % _PURGE_EVERY == 1:
                self._purge(now_ms)
            written = self._run(
                "INSERT INTO dedup VALUES (?, ?, ?) ON CONFLICT (key) DO UPDATE"
                " SET owner = excluded.owner, until_ms = excluded.until_ms WHERE until_ms <= ?",
                (key, owner, now_ms + lease_ms, now_ms),
            )
            if written.rowcount == 1:
                return KeyVerdict.RUN
            row = self._run("SELECT owner FROM dedup WHERE key = ?", (key,)).fetchone()
            return KeyVerdict.SKIP if row is not None and row[0] is None else KeyVerdict.LATER

    def done(self, key: str, retention_ms: int) -> None:
        """See DedupStore."""
        with self._mine():
            self._run(
                "INSERT INTO dedup VALUES (?, NULL, ?) ON CONFLICT (key) DO UPDATE"
                " SET owner = NULL, until_ms = excluded.until_ms",
                (key, self._now_ms() + retention_ms),
            )

    def release(self, key: str, owner: str) -> None:
        """See DedupStore."""
        with self._mine():
            self._run("DELETE FROM dedup WHERE key = ? AND owner = ?", (key, owner))

    def close(self) -> None:
        """Close the file."""
        with self._mine():
            self._connection.close()

    def _purge(self, now_ms: int) -> None:
        self._run("DELETE FROM dedup WHERE until_ms <= ?", (now_ms,))
        (rows,) = self._run("SELECT count(*) FROM dedup").fetchone()
        if rows > self._rows_max:
            log.warning("%s has %d keys: the oldest are deleted", self._path, rows)
            self._run(
                "DELETE FROM dedup WHERE key IN (SELECT key FROM dedup WHERE owner IS NULL"
                " ORDER BY until_ms LIMIT ?)",
                (rows - self._rows_max,),
            )

    def _run(self, statement: str, values: tuple[object, ...] = ()) -> sqlite3.Cursor:
        with self._faults():
            return self._connection.execute(statement, values)

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY:
                raise TimedOut(f"{self._path} was locked for more than {_BUSY_S_MAX} s") from error
            raise BadState(f"{self._path} cannot be used: {error}") from error

    def _mine(self) -> threading.Lock:
        """The lock. A forked child process gets its own lock and connection.

        The parent's connection is not closed in the child: that would disturb the parent.
        """
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._lock = threading.Lock()
            self._inherited.append(self._connection)
            self._connection = self._opened()
        return self._lock
