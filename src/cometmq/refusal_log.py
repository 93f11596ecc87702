"""Rate-limited log events about refusals: one when an episode begins and one when it has ended.

A peer can cause any number of refusals; a log line for each would fill the disk. An episode begins
with the first refusal and ends after `QUIET_MS` without one. One `RefusalLog` therefore writes at
most two lines per `QUIET_MS`.
"""

from logging import Logger

from cometmq.log_event import LogEvent
from cometmq.seams import Clock

QUIET_MS = 10_000  # the episode ends after this time without a refusal


class RefusalLog:
    """Logs the episodes of one kind of refusal."""

    def __init__(self, log: Logger, clock: Clock, what: str) -> None:
        """`what` is the subject of the log lines, such as "connections"."""
        self._log = log
        self._clock = clock
        self._what = what
        self._began_ms = 0
        self._last_ms = 0
        self._count = 0  # refusals in this episode; 0 outside of one

    def refused(self, reason: str) -> None:
        """Count a refusal; log the reason if it is the first of an episode. Call on the loop."""
        self._last_ms = self._clock.monotonic_ms()
        self._count += 1
        if self._count == 1:
            self._began_ms = self._last_ms
            self._log.warning(LogEvent(f"{self._what} are refused", reason=reason))
            self._clock.call_later(QUIET_MS, self._check_end)

    def _check_end(self) -> None:
        quiet_ms = self._clock.monotonic_ms() - self._last_ms
        if quiet_ms < QUIET_MS:
            self._clock.call_later(QUIET_MS - quiet_ms, self._check_end)
            return
        duration_ms = self._last_ms - self._began_ms
        text = f"{self._what} are accepted again"
        self._log.warning(LogEvent(text, refused=self._count, duration_ms=duration_ms))
        self._count = 0
