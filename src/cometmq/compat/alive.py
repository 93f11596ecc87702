"""Started clients keep the process alive until their shutdown, as in Java.

Java's clients run on threads that are not daemons: after `main` has returned, the process goes on
until each client that was started is shut down. So it is here: a program whose last line starts a
consumer goes on consuming.

Our threads are daemons, and the main thread waits instead. It waits before Python shuts anything
down: in a thread that is merely not a daemon, listeners could no longer use
`concurrent.futures`, and names of hosts could not be resolved.

Ctrl-C ends the wait, and a SIGTERM without a handler the process. What was registered with `atexit`
runs after a Ctrl-C, as a shutdown hook does in Java.
"""

import concurrent.futures.thread  # noqa: F401 - its own end is registered before ours, and runs after
import logging
import os
import sys
import threading
from queue import Empty, SimpleQueue

log = logging.getLogger(__name__)

_LOOK_S = 1  # for signals: one that comes just before a wait does not end it
_alive: set[object] = set()  # clients that were started and not shut down
_released: SimpleQueue[None] = SimpleQueue()  # a signal handler may put, whatever it interrupts


def hold(client: object) -> None:
    """The process does not end while this client runs."""
    _alive.add(client)


def release(client: object) -> None:
    """It runs no more. May be called again."""
    if client in _alive:
        _alive.discard(client)
        _released.put(None)


def _wait() -> None:
    """At the end of the main thread."""
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        return  # Ctrl-C has ended the program
    if _alive:
        log.info("the process goes on until %d clients are shut down", len(_alive))
    try:
        while _alive:
            try:
                _released.get(timeout=_LOOK_S)
            except Empty:
                continue
    except KeyboardInterrupt:
        log.info("interrupted: %d clients were not shut down", len(_alive))


# Python has no public way to run something at the end of the main thread and before its executors
# are shut down. The standard library registers those by this function.
threading._register_atexit(_wait)  # type: ignore[attr-defined]  # noqa: SLF001
os.register_at_fork(after_in_child=_alive.clear)  # a child has none of its parent's clients
