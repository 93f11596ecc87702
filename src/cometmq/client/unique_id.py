"""Unique message keys, as Java's client makes them: who sent a message, when, and as which.

    | IP 4 or 16 | pid 2 | loader hash 4 | ms since month start 4 | count 2 |   in hex, upper case

The loader hash is a random number of the process here. The month is that of local time, as there.
A forked child gets a number and a pid of its own, so that it never makes its parent's keys.
"""

import os
import time
from collections.abc import Iterator
from itertools import chain, islice, product, repeat, starmap
from secrets import randbits
from weakref import WeakSet

from cometmq.errors import BadSetting
from cometmq.protocol.records.message_id import UniqueKey
from cometmq.seams import Clock

_BYTES = tuple(f"{byte:02X}" for byte in range(256))
_COUNT_SIZE = 4  # digits
_OF_ONE_LOOK = 1024  # keys, at the clock: far fewer than differ, and it goes on meanwhile
_CLOCK_SLACK_MS = 1_000_000  # a clock that was set back by less than this counts as not moved


class UniqueKeys:
    """Makes keys; any thread may call it. 65 536 of one millisecond differ.

    When the clock is set back into the month before, the time in a key is negative, as there.
    """

    def __init__(self, ip: bytes, clock: Clock) -> None:
        if len(ip) not in (4, 16):
            raise BadSetting(f"an IP address has 4 or 16 bytes, not {len(ip)}")
        self._ip = ip
        self._wall_ms = clock.wall_ms
        self._renew()
        _all.add(self)

    def _renew(self) -> None:
        """Become another process's: a new number, and a count from zero."""
        start = UniqueKey(self._ip, os.getpid() & 0xFFFF, randbits(32), 0, 0)
        self._prefix = str(start)[:-12]  # without time and count
        self._counts = _counts()
        self._month_ms = month_around(self._wall_ms())
        self._stem = (-1, "")

    def __call__(self) -> str:
        """Another key."""
        return self.at(self._wall_ms())

    def many(self, count: int) -> list[str]:
        """So many others."""
        keys: list[str] = []
        while len(keys) < count:
            keys.append(self())
            stem = keys[-1][:-_COUNT_SIZE]
            few = min(count - len(keys), _OF_ONE_LOOK - 1)
            keys += [stem + number for number in islice(self._counts, few)]
        return keys

    def at(self, now_ms: int) -> str:
        """Another key, for who knows what time it is."""
        stem_ms, stem = self._stem  # read at once, and written at once: threads need no lock
        if now_ms != stem_ms:
            stem = self._stem_of(now_ms)
            self._stem = now_ms, stem
        return stem + next(self._counts)

    def _stem_of(self, now_ms: int) -> str:
        month_ms, next_month_ms = self._month_ms
        if now_ms >= next_month_ms:
            self._month_ms = month_ms, _ = month_around(now_ms)
        since_ms = now_ms - month_ms
        if -_CLOCK_SLACK_MS < since_ms < 0:
            since_ms = 0
        return f"{self._prefix}{since_ms & 0xFFFFFFFF:08X}"


def _counts() -> Iterator[str]:
    """0000 to FFFF, for ever. Made in C alone: threads need no lock, and it is quick."""
    pairs = chain.from_iterable(starmap(product, repeat((_BYTES, _BYTES))))
    return map("".join, pairs)


def month_around(now_ms: int) -> tuple[int, int]:
    """When the local month of this moment began and when the next one begins."""
    local = time.localtime(now_ms / 1000)
    year, month = local.tm_year, local.tm_mon
    return _month_start_ms(year, month), _month_start_ms(year, month + 1)


def _month_start_ms(year: int, month: int) -> int:
    # mktime takes the 13th month of a year, and finds out about summer time.
    return int(time.mktime((year, month, 1, 0, 0, 0, 0, 0, -1))) * 1000


_all: WeakSet[UniqueKeys] = WeakSet()


def _renew_all() -> None:
    for keys in list(_all):
        keys._renew()  # noqa: SLF001 - of this file


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
