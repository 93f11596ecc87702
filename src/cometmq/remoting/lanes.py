"""Admission: how many requests of a kind may be in flight.

Only requests that wait are in flight: one answered in place is gone before the next is looked at.
"""

from collections import Counter
from collections.abc import Mapping

from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode


class Lanes:
    """A count per lane, and its limit."""

    def __init__(self, limit: int, limits: Mapping[str, int] | None = None) -> None:
        self._limit = limit
        self._limits = dict(limits or {})
        self._in_flight: Counter[str] = Counter()

    def enter(self, lane: str) -> None:
        """One more, or Refused as busy."""
        limit = self._limits.get(lane, self._limit)
        if self._in_flight[lane] >= limit:
            raise Refused(
                ResponseCode.SYSTEM_BUSY,
                f"[REJECTREQUEST] {limit} requests wait in the {lane} lane, its limit; try later",
            )
        self._in_flight[lane] += 1

    def leave(self, lane: str) -> None:
        """One less."""
        self._in_flight[lane] -= 1
        assert self._in_flight[lane] >= 0, lane

    def in_flight(self, lane: str) -> int:
        """How many are in a lane now."""
        return self._in_flight[lane]
