"""Retries while servers are unreachable, so that a restart of a server does not end a query."""

import time
from collections.abc import Callable
from typing import TypeVar

from cometmq.errors import NoRoute, TimedOut, Unreachable

T = TypeVar("T")

_PAUSE_S = 0.2


def retry_unreachable(work: Callable[[], T], timeout_ms: int) -> T:
    """Return the result of `work`; raise its last error after the timeout."""
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            return work()
        except (Unreachable, TimedOut, NoRoute):
            if time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_S)
