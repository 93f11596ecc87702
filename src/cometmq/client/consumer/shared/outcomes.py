"""What a listener may say of the messages it was given.

    returns               side by side                       orderly
    None, Ack()           consumed                           consumed; with manual commit, not yet
                                                             committed
    Ack(count)            the first `count` of the batch     the first are consumed, the others wait
                          are consumed, the others come      and come again
                          again later
    Retry(delay_level)    come again later, by the broker    as Suspend()
    an exception          as Retry()                         as Suspend()
    Suspend(ms)           a mistake: as Retry(), and logged  the queue waits, then they come again
    Commit()              a mistake: as Retry(), and logged  all since the last commit are consumed
    Rollback()            a mistake: as Retry(), and logged  the queue waits, then all since the
                                                             last commit come again
    anything else         a mistake: as Retry(), and logged  a mistake: as Suspend(), and logged

"Later" is after the broker's next delay, up to `max_reconsume_times`, then they are dead letters.
A broadcasting consumer has no later: what it fails is logged and passed over.
"""

from dataclasses import dataclass
from datetime import timedelta

from cometmq.errors import BadSetting

DELAY_LEVEL_MAX = 18  # of a broker's usual table
TO_DEAD_LETTERS = -1  # in place of a delay level
_SUSPEND_MS_MAX = 30_000
_SUSPEND_MS_MIN = 10
_MILLISECOND = timedelta(milliseconds=1)


def check_delay_level(level: int) -> None:
    """BadSetting, unless messages can be sent back with it."""
    if not TO_DEAD_LETTERS <= level <= DELAY_LEVEL_MAX:
        raise BadSetting(
            f"delay level {level}: use 1 to {DELAY_LEVEL_MAX}, 0 for later each time, or"
            f" {TO_DEAD_LETTERS} for a dead letter"
        )


@dataclass(frozen=True, slots=True)
class Ack:
    """Consumed: all of them, or the first `count` of a batch.

    The others come again later, after a delay that may be chosen, as with Retry.
    """

    count: int | None = None
    delay_level: int = 0

    def __post_init__(self) -> None:
        check_delay_level(self.delay_level)
        if self.count is not None and self.count < 0:
            raise BadSetting(f"Ack({self.count}): give the number of messages that are done")


@dataclass(frozen=True, slots=True)
class Retry:
    """Later. The broker chooses when, unless you do: by its table of delays, from 1.

    -1 makes them dead letters at once.
    """

    delay_level: int = 0

    def __post_init__(self) -> None:
        check_delay_level(self.delay_level)


@dataclass(frozen=True, slots=True, init=False)
class Suspend:
    """Let the queue wait so long, then try again; by default, as long as the settings say."""

    ms: int | None

    def __init__(self, ms: int | timedelta | None = None) -> None:
        if isinstance(ms, timedelta):
            ms = ms // _MILLISECOND
        if ms is not None:  # Java bounds it alike
            ms = min(max(ms, _SUSPEND_MS_MIN), _SUSPEND_MS_MAX)
        object.__setattr__(self, "ms", ms)


@dataclass(frozen=True, slots=True)
class Commit:
    """All that this queue gave since the last commit is consumed."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """All that this queue gave since the last commit comes again, after a moment."""


Outcome = Ack | Retry | Suspend | Commit | Rollback

ACK = Ack()
RETRY = Retry()
SUSPEND = Suspend()
