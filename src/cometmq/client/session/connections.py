"""Connection events of a session: connected, disconnected, reconnected.

The pool of connections reports what happens to each address. This module turns the reports into
events for callbacks and into log lines: one WARNING when a peer becomes unreachable, one INFO when
it is reachable again. Repeated failures in between are DEBUG.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial

from cometmq.client.callables import check_callable
from cometmq.errors import Unreachable
from cometmq.seams import Clock

log = logging.getLogger(__name__)


class ConnectionChange(Enum):
    """What happened to the connection to a broker or name server."""

    CONNECTED = "connected"  # for the first time
    DISCONNECTED = "disconnected"  # the connection was lost, or could not be opened
    RECONNECTED = "reconnected"  # after a disconnection


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """One change of the connection to a broker or name server.

    Attributes:
        change: What happened.
        address: The peer's `host:port`.
        peer: The peer's role and name, such as `broker broker-a` or `name server`.
        reason: Why the peer is disconnected; empty for other changes.
    """

    change: ConnectionChange
    address: str
    peer: str
    reason: str = ""


OnConnection = Callable[[ConnectionEvent], object]


class Connections:
    """The state of each address that the session has connected to."""

    def __init__(self, clock: Clock, peer_at: Callable[[str], str]) -> None:
        self._clock = clock
        self._peer_at = peer_at
        self._seen: set[str] = set()  # addresses that were connected or disconnected before
        self._lost_ms: dict[str, int] = {}  # unreachable addresses: since when
        self._callbacks: list[OnConnection] = []

    def on_connection(self, callback: OnConnection) -> Callable[[], None]:
        """Call `callback` with each event; the returned function ends that."""
        check_callable("a callback of connection events", callback, "event")
        self._callbacks.append(callback)
        return partial(self._callbacks.remove, callback)

    def connected(self, address: str) -> None:
        """The pool opened a connection."""
        lost_ms = self._lost_ms.pop(address, None)
        peer = self._peer_at(address)
        if lost_ms is not None:
            passed_s = (self._clock.monotonic_ms() - lost_ms) / 1000
            log.info("%s at %s is reachable again after %.1f s", peer, address, passed_s)
        is_new = address not in self._seen
        self._seen.add(address)
        change = ConnectionChange.CONNECTED if is_new else ConnectionChange.RECONNECTED
        self._emit(ConnectionEvent(change, address, peer))

    def disconnected(self, address: str, reason: str) -> None:
        """A connection broke, or an attempt to open one failed."""
        peer = self._peer_at(address)
        if address in self._lost_ms:
            log.debug("%s at %s is still unreachable: %s", peer, address, reason)
            return
        self._lost_ms[address] = self._clock.monotonic_ms()
        log.warning("%s at %s is unreachable: %s", peer, address, reason)
        self._emit(ConnectionEvent(ConnectionChange.DISCONNECTED, address, peer, reason))

    def _emit(self, event: ConnectionEvent) -> None:
        for callback in list(self._callbacks):
            try:
                callback(event)
            except Exception:
                log.exception("a callback of connection events failed")


def failure_level(error: BaseException) -> int:
    """The log level of a failed request: DEBUG if the session reports the unreachable peer."""
    return logging.DEBUG if isinstance(error, Unreachable) else logging.WARNING
