"""Who consumes which queue alone: locks of ordered consumption, which end by themselves."""

from collections.abc import Iterable

import msgspec

from cometmq.protocol.bodies.queues import MessageQueue

EXPIRES_MS = 60_000  # after a holder last asked


class _Hold(msgspec.Struct):
    client_id: str
    until_ms: int


class QueueLocks:
    """Group and queue to their holder. Times are monotonic: a clock that is set moves no lock."""

    def __init__(self) -> None:
        self._holds: dict[str, dict[MessageQueue, _Hold]] = {}

    def lock(
        self, group: str, queues: Iterable[MessageQueue], client_id: str, now_ms: int
    ) -> list[MessageQueue]:
        """Those of the queues that the client holds now: free ones, and its own again."""
        holds = self._holds.setdefault(group, {})
        held = []
        for queue in queues:
            hold = holds.get(queue)
            if hold is None or hold.client_id == client_id or hold.until_ms <= now_ms:
                holds[queue] = _Hold(client_id, now_ms + EXPIRES_MS)
                held.append(queue)
        return held

    def unlock(self, group: str, queues: Iterable[MessageQueue], client_id: str) -> None:
        """Let go of those that the client holds."""
        holds = self._holds.get(group, {})
        for queue in queues:
            hold = holds.get(queue)
            if hold is not None and hold.client_id == client_id:
                del holds[queue]

    def forget_expired(self, now_ms: int) -> None:
        """Drop what nobody holds any more, so that gone groups cost nothing."""
        for group, holds in list(self._holds.items()):
            self._holds[group] = {q: hold for q, hold in holds.items() if hold.until_ms > now_ms}
            if not self._holds[group]:
                del self._holds[group]
