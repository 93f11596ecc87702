"""Unique message keys in the format of Java's client: sender, time and counter.

    | IP 4 or 16 | pid 2 | loader hash 4 | ms since month start 4 | count 2 |   in hex, upper case

The loader hash is a random number per process here. The month is that of local time, as in Java.
A forked child gets another random number and its own pid: it never repeats its parent's keys.
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
_OF_ONE_LOOK = 1024  # keys per clock reading; the counter distinguishes 65,536
_CLOCK_SLACK_MS = 1_000_000  # a clock set back by less than this counts as unchanged


class UniqueKeys:
    """Generates keys; thread-safe. 65,536 keys of one millisecond are distinct.

    If the clock is set back into the previous month, the time in a key is negative, as in Java.
    """

    def __init__(self, ip: bytes, clock: Clock) -> None:
        if len(ip) not in (4, 16):
            raise BadSetting(f"an IP address has 4 or 16 bytes, not {len(ip)}")
        self._ip = ip
        self._wall_ms = clock.wall_ms
        self._renew()
        _all.add(self)

    def _renew(self) -> None:
        """Start over with another random number and a counter at zero."""
        start = UniqueKey(self._ip, os.getpid() & 0xFFFF, randbits(32), 0, 0)
        self._prefix = str(start)[:-12]  # without time and count
        self._counts = _counts()
        self._month_ms = month_around(self._wall_ms())
        self._stem = (-1, "")

    def __call__(self) -> str:
        """Return the next key."""
        return self.at(self._wall_ms())

    def many(self, count: int) -> list[str]:
        """Return the next `count` keys."""
        keys: list[str] = []
        while len(keys) < count:
            keys.append(self())
            stem = keys[-1][:-_COUNT_SIZE]
            few = min(count - len(keys), _OF_ONE_LOOK - 1)
            keys += [stem + number for number in islice(self._counts, few)]
        return keys

    def at(self, now_ms: int) -> str:
        """Return the next key, for a caller that has read the clock."""
        stem_ms, stem = self._stem  # one tuple: reads and writes are atomic, so no lock is needed
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
    """Yield 0000 to FFFF forever. It runs in C only, so threads need no lock."""
    pairs = chain.from_iterable(starmap(product, repeat((_BYTES, _BYTES))))
    return map("".join, pairs)


def month_around(now_ms: int) -> tuple[int, int]:
    """Return the start of the local month and of the next one, in ms since 1970."""
    local = time.localtime(now_ms / 1000)
    year, month = local.tm_year, local.tm_mon
    return _month_start_ms(year, month), _month_start_ms(year, month + 1)


def _month_start_ms(year: int, month: int) -> int:
    # mktime accepts month 13 and determines daylight saving time.
    return int(time.mktime((year, month, 1, 0, 0, 0, 0, 0, -1))) * 1000


_all: WeakSet[UniqueKeys] = WeakSet()


def _renew_all() -> None:
    for keys in list(_all):
        keys._renew()  # noqa: SLF001 - of this file


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)
