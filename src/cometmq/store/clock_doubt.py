"""Whether the wall clock can be believed where files are deleted by their age."""

import logging

from cometmq.seams import Clock

log = logging.getLogger(__name__)

_HOUR_MS = 3_600_000
_JUMP_MS = _HOUR_MS  # no clock is steered by so much at once
_DOUBT_MS = 24 * _HOUR_MS


class ClockDoubt:
    """A clock that jumped ahead makes every file old: for a day it is not believed.

    A machine that slept looks the same from here, and its files did age, so doubt must end by
    itself. Files go by their age once a day: whoever sets clocks, or reads logs, has until the next
    time. To wait costs nothing but room, and a disk that is too full is cleaned without asking for
    the time.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = clock.wall_ms() - clock.monotonic_ms()
        self._until_ms = clock.monotonic_ms()

    def holds(self) -> bool:
        """Asked at each look at the files: a jump is what came since the last one."""
        now_ms = self._clock.monotonic_ms()
        ahead_ms = self._clock.wall_ms() - now_ms
        jump_ms = ahead_ms - self._ahead_ms
        self._ahead_ms = ahead_ms
        if jump_ms > _JUMP_MS:
            self._until_ms = now_ms + _DOUBT_MS
            log.error(
                "the clock jumped %.1f hours ahead: for a day no file is deleted for its age",
                jump_ms / _HOUR_MS,
            )
        return now_ms < self._until_ms

    def dismiss(self) -> None:
        """Somebody says that the clock is right as it is."""
        self._until_ms = self._clock.monotonic_ms()
        self._ahead_ms = self._clock.wall_ms() - self._until_ms
