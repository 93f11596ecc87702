"""Locks of ordered consumption: which member of a group consumes a queue alone.

The rule: at most one member of a group holds a queue. A hold ends when its holder unlocks the
queue, or EXPIRES_MS after its holder last asked for it. A member stops consuming a queue 30 s after
its last successful request (Java's and ours), so the next holder begins after it has stopped.

The rule survives a restart of the broker, clean or not:

1. A change of holder is on disk (`config/queueLocks.json`) before the new holder is answered. So
   the file names every member that may be consuming.
2. A restart counts as a request of every holder in the file: its holds last EXPIRES_MS from the
   start. No holder can have asked later than that, as the broker was not running.

Renewals change no holder and are not written. Releases are written with the next change, within
`flushConsumerOffsetInterval`, or when the broker stops: an old holder in the file only delays the
next one, by EXPIRES_MS at most. A member that did not change gets its locks back immediately, and a
queue that is not in the file is free. A Java member needs nothing for this: it asks for its queues
by the same client id as before.

The file has no times, because the wall clock may be set and a monotonic clock ends with its
machine.
"""

import logging
from collections.abc import Iterable
from pathlib import Path

import msgspec

from cometmq.broker.tables.table_file import KeptTable
from cometmq.errors import BadState
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.java.fastjson import Body
from cometmq.seams import Disk

log = logging.getLogger(__name__)

EXPIRES_MS = 60_000  # after a holder last asked


class _Hold(msgspec.Struct):
    client_id: str
    until_ms: int


class LockTable(Body):
    """The content of queueLocks.json: group to client id to the queues that it holds."""

    lock_table: dict[str, dict[str, list[MessageQueue]]] = {}


class QueueLockTable:
    """Group and queue to their holder. Times are monotonic: setting the clock moves no lock."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._holds: dict[str, dict[MessageQueue, _Hold]] = {}
        self.path = path
        self.file = KeptTable(disk, path, lambda: self.body)

    def load(self, now_ms: int) -> None:
        """Read the file; every hold in it lasts EXPIRES_MS from now.

        If both the file and its backup are damaged, they are set aside and no queue is held. Two
        members may then consume a queue until the old holder notices, 30 s at most.
        """
        try:
            stored = self.file.read(LockTable)
        except BadState as error:
            log.error("starting without queue locks, the files are renamed to *.damaged: %s", error)
            self.file.set_aside()
            return
        if stored is None:
            return
        for group, members in stored.lock_table.items():
            self._holds[group] = {
                queue: _Hold(client_id, now_ms + EXPIRES_MS)
                for client_id, queues in members.items()
                for queue in queues
            }

    @property
    def body(self) -> LockTable:
        """The content of the file."""
        table: dict[str, dict[str, list[MessageQueue]]] = {}
        for group, holds in self._holds.items():
            members = table.setdefault(group, {})
            for queue, hold in holds.items():
                members.setdefault(hold.client_id, []).append(queue)
        return LockTable(lock_table=table)

    def lock(
        self, group: str, queues: Iterable[MessageQueue], client_id: str, now_ms: int
    ) -> list[MessageQueue]:
        """Those of the queues that the client holds now: free ones, and its own again.

        Answer the client only once `file` is saved.
        """
        holds = self._holds.setdefault(group, {})
        held = []
        for queue in queues:
            hold = holds.get(queue)
            if hold is not None and hold.client_id == client_id:
                hold.until_ms = now_ms + EXPIRES_MS
            elif hold is None or hold.until_ms <= now_ms:
                holds[queue] = _Hold(client_id, now_ms + EXPIRES_MS)
                self.file.changed()
            else:
                continue
            held.append(queue)
        return held

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Release those that the client holds."""
        holds = self._holds.get(group, {})
        for queue in queues:
            hold = holds.get(queue)
            if hold is not None and hold.client_id == client_id:
                del holds[queue]
                self.file.changed()

    def forget_expired(self, now_ms: int) -> None:
        """Drop holds that have expired, so that gone groups cost nothing."""
        for group, holds in list(self._holds.items()):
            live = {queue: hold for queue, hold in holds.items() if hold.until_ms > now_ms}
            if len(live) < len(holds):
                self._holds[group] = live
                self.file.changed()
            if not live:
                del self._holds[group]
