"""Detects jumps of the wall clock, which would make retention delete files too early."""

import logging

from cometmq.seams import Clock

log = logging.getLogger(__name__)

_HOUR_MS = 3_600_000
_JUMP_MS = _HOUR_MS  # clocks are never adjusted by more in one step
_DOUBT_MS = 24 * _HOUR_MS


class ClockDoubt:
    """After a jump ahead, files are not deleted by age for one day.

    A clock that jumped ahead makes every file look old. A machine that was suspended looks the
    same, and its files did age, so the doubt ends by itself. An administrator has a day to correct
    the clock. The delay costs only disk space, and a disk that is too full is cleaned regardless.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = clock.wall_ms() - clock.monotonic_ms()
        self._until_ms = clock.monotonic_ms()

    def holds(self) -> bool:
        """Whether the clock is in doubt. Each call looks for a jump since the last call."""
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
        """An administrator confirms the clock by deleting files by hand."""
        self._until_ms = self._clock.monotonic_ms()
        self._ahead_ms = self._clock.wall_ms() - self._until_ms
