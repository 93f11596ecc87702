"""Log lines about refused requests: one when refusing begins and one when it has ended.

A refusal costs the peer one answer; a log line for each would cost the disk. An episode begins with
the first refusal and ends once there was none for a while, so one kind of refusal writes at most
two lines in that time.
"""

from logging import Logger

from cometmq.seams import Clock

QUIET_MS = 10_000  # without a refusal: the episode has ended


class RefusalLog:
    """One kind of refusal."""

    def __init__(self, log: Logger, clock: Clock, what: str) -> None:
        """`what` names the refused thing in the last line, as in "connections"."""
        self._log = log
        self._clock = clock
        self._what = what
        self._began_ms = 0
        self._last_ms = 0
        self._count = 0  # refusals in this episode; 0 outside of one

    def refused(self, reason: str) -> None:
        """Count one refusal; log the reason if it is the first of an episode. Runs on the loop."""
        self._last_ms = self._clock.monotonic_ms()
        self._count += 1
        if self._count == 1:
            self._began_ms = self._last_ms
            self._log.warning("%s are refused: %s", self._what, reason)
            self._clock.call_later(QUIET_MS, self._look)

    def _look(self) -> None:
        quiet_ms = self._clock.monotonic_ms() - self._last_ms
        if quiet_ms < QUIET_MS:
            self._clock.call_later(QUIET_MS - quiet_ms, self._look)
            return
        lasted_ms = self._last_ms - self._began_ms
        self._log.warning(
            "%s are accepted again: %d were refused in %d ms", self._what, self._count, lasted_ms
        )
        self._count = 0
