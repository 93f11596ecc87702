"""Started clients keep the process alive until their shutdown, as in Java.

Java's clients run on threads that are not daemons: after `main` has returned, the process goes on
until each client that was started is shut down. This module does the same: a program whose last
line starts a consumer continues to consume.

Our threads are daemons; the main thread waits instead. It waits before Python shuts down its
executors: a non-daemon thread would run after that, when listeners can no longer use
`concurrent.futures` and host names cannot be resolved.

Ctrl-C ends the wait; SIGTERM without a handler ends the process. Functions registered with `atexit`
run after Ctrl-C, like shutdown hooks in Java.
"""

import concurrent.futures.thread  # noqa: F401 - registers its exit function before ours
import logging
import os
import sys
import threading
from queue import Empty, SimpleQueue

log = logging.getLogger(__name__)

_LOOK_S = 1  # a signal just before a wait does not interrupt it
_alive: set[object] = set()  # started clients
_released: SimpleQueue[None] = SimpleQueue()  # reentrant: a signal handler may call put


def hold(client: object) -> None:
    """Keep the process alive until `release` is called for this client."""
    _alive.add(client)


def release(client: object) -> None:
    """The client is shut down. Further calls do nothing."""
    if client in _alive:
        _alive.discard(client)
        _released.put(None)


def _wait() -> None:
    """Wait at the end of the main thread until all clients are shut down."""
    if getattr(sys, "last_type", None) is KeyboardInterrupt:
        return  # Ctrl-C has ended the program
    if _alive:
        log.info("waiting until %d clients are shut down", len(_alive))
    try:
        while _alive:
            try:
                _released.get(timeout=_LOOK_S)
            except Empty:
                continue
    except KeyboardInterrupt:
        log.info("interrupted: %d clients were not shut down", len(_alive))


# Python has no public hook between the end of the main thread and the shutdown of its executors.
# The standard library registers the latter by this function.
threading._register_atexit(_wait)  # type: ignore[attr-defined]  # noqa: SLF001
os.register_at_fork(after_in_child=_alive.clear)  # a child does not run its parent's clients
