"""Waiting for servers that are away for a moment: one that is started again is no reason to end."""

import time
from collections.abc import Callable
from typing import TypeVar

from cometmq.errors import NoRoute, TimedOut, Unreachable

T = TypeVar("T")

_PAUSE_S = 0.2


def patiently(work: Callable[[], T], patience_ms: int) -> T:
    """What the work gives; its last error, if servers stay away for so long."""
    deadline = time.monotonic() + patience_ms / 1000
    while True:
        try:
            return work()
        except (Unreachable, TimedOut, NoRoute):
            if time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_S)
