"""What a listener may return.

    returned              concurrent                         orderly
    None, Ack()           consumed                           consumed; with manual_commit, held
                                                             until Commit()
    Ack(count)            the first `count` messages of the  the first are consumed, the queue
                          batch are consumed, the others     waits, then the others are
                          are redelivered later              redelivered
    Retry(delay_level)    redelivered later by the broker    as Suspend()
    an exception          as Retry()                         as Suspend()
    Suspend(delay)        a mistake: logged, as Retry()      the queue waits, then redelivery
    Commit()              a mistake: logged, as Retry()      all since the last commit are consumed
    Rollback()            a mistake: logged, as Retry()      the queue waits, then all since the
                                                             last commit are redelivered
    anything else         a mistake: logged, as Retry()      a mistake: logged, as Suspend()

"Later" is after the broker's next delay level. After `max_reconsume_times` redeliveries a message
becomes a dead letter. A broadcasting consumer does not retry: failed messages are skipped.
"""

from dataclasses import dataclass

from cometmq.client.durations import Timeout, duration_ms
from cometmq.errors import BadSetting

DELAY_LEVEL_MAX = 18  # of a broker's default messageDelayLevel
TO_DEAD_LETTERS = -1  # in place of a delay level
_SUSPEND_MS_MAX = 30_000
_SUSPEND_MS_MIN = 10


def check_delay_level(level: int) -> None:
    """Raise BadSetting unless messages can be sent back with this delay level."""
    if not TO_DEAD_LETTERS <= level <= DELAY_LEVEL_MAX:
        raise BadSetting(
            f"delay level {level}: use 1 to {DELAY_LEVEL_MAX}, 0 for a longer delay each time, or"
            f" {TO_DEAD_LETTERS} for a dead letter"
        )


@dataclass(frozen=True, slots=True)
class Ack:
    """The messages are consumed.

    Args:
        count: How many messages of a batch are consumed, from the first; None for all. The others
            are redelivered.
        delay_level: When the others are redelivered; see `Retry`.
    """

    count: int | None = None
    delay_level: int = 0

    def __post_init__(self) -> None:
        check_delay_level(self.delay_level)
        if self.count is not None and self.count < 0:
            raise BadSetting(f"Ack({self.count}): give the number of consumed messages")


@dataclass(frozen=True, slots=True)
class Retry:
    """The messages failed: redeliver them later.

    Args:
        delay_level: 0 for a longer delay each time: 10 s, 30 s, 1 min, up to 2 h. 1 to 18 choose a
            level of the broker's `messageDelayLevel`. -1 makes dead letters of them immediately.
    """

    delay_level: int = 0

    def __post_init__(self) -> None:
        check_delay_level(self.delay_level)


@dataclass(frozen=True, slots=True, init=False)
class Suspend:
    """The messages of an orderly queue failed: suspend the queue, then redeliver them.

    Args:
        delay: Seconds or a timedelta, at least 0.01 s and at most 30 s, as in Apache RocketMQ;
            values outside are clipped. By default `suspend_current_queue_time`.
    """

    ms: int | None

    def __init__(self, delay: Timeout = None) -> None:
        ms = None
        if delay is not None:
            ms = min(max(duration_ms(delay, "delay"), _SUSPEND_MS_MIN), _SUSPEND_MS_MAX)
        object.__setattr__(self, "ms", ms)


@dataclass(frozen=True, slots=True)
class Commit:
    """All messages of this orderly queue since the last commit are consumed (`manual_commit`)."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """Redeliver all messages of this orderly queue since the last commit (`manual_commit`)."""


Outcome = Ack | Retry | Suspend | Commit | Rollback

ACK = Ack()
RETRY = Retry()
SUSPEND = Suspend()
