"""The retry rule of a send, as a pure object: no socket, no clock, no task.

Feed `SendAttempts.after` the outcome of each attempt. It answers TryAgain (which queue, after which
delay), Done (the result) or Failed (the exception to raise).

| outcome of an attempt                                | queue not chosen | queue chosen           |
|------------------------------------------------------|------------------|------------------------|
| stored as safely as requested                        | done             | done                   |
| stored, but not flushed or replicated in time        | done; another broker if so configured   |
| Unreachable, TimedOut, NoRoute                       | another broker   | same queue, or failed  |
| Refused with one of the configured codes             | another broker   | failed                 |
| any other refusal or error                           | failed           | failed                 |

All attempts share one deadline. A lost answer takes precedence over any other failure, because the
message may be stored.
"""

from collections.abc import Callable
from dataclasses import dataclass

from cometmq.client.config import ProducerConfig
from cometmq.client.durations import duration_ms
from cometmq.client.message import SendResult, SendStatus
from cometmq.errors import NoRoute, Refused, StoredState, TimedOut, Unreachable
from cometmq.protocol.bodies.queues import MessageQueue

_BACKOFF_MS_MAX = 1_000

# What an attempt came to. A one-way send that was written has None.
Outcome = SendResult | Exception | None


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Which failures are retried, how often and where."""

    retries: int  # attempts after the first
    same_queue: bool = False  # the sender chose the queue
    codes: frozenset[int] = frozenset()  # refusals that another broker may not repeat
    when_not_safe: bool = False  # a result other than OK is retried
    backoff_ms: int = 0  # before the first return to a broker that has failed; 0: no delays


class RetryPolicies:
    """The policies of one producer, which has Java's two counts of retries."""

    def __init__(self, config: ProducerConfig) -> None:
        backoff_ms = duration_ms(config.retry_backoff)
        self.awaited = RetryPolicy(
            config.retries,
            codes=frozenset(config.retry_response_codes),
            when_not_safe=config.retry_another_broker_when_not_stored,
            backoff_ms=backoff_ms,
        )
        self.callback = RetryPolicy(config.async_retries, backoff_ms=backoff_ms)
        self.callback_chosen = RetryPolicy(config.async_retries, same_queue=True)
        self.once = RetryPolicy(0)  # awaited at a chosen queue, and one-way


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Send to this queue after this delay."""

    queue: MessageQueue
    delay_ms: int = 0


@dataclass(frozen=True, slots=True)
class Done:
    """The message is stored."""

    result: SendResult


@dataclass(frozen=True, slots=True)
class Failed:
    """No attempt is left; the notes of the error list the other failures."""

    error: Exception


Step = TryAgain | Done | Failed


class SendAttempts:
    """The attempts of one send so far."""

    def __init__(
        self,
        policy: RetryPolicy,
        deadline_ms: int,
        next_queue: Callable[[str], MessageQueue],  # not of this broker, if possible
        chance: Callable[[], float],  # from 0 to 1, for jitter
    ) -> None:
        self._policy = policy
        self._deadline_ms = deadline_ms
        self._next_queue = next_queue
        self._chance = chance
        self._count = 0
        self._returns = 0  # attempts at a broker that had failed before
        self._failed_brokers: set[str] = set()
        self._stored: SendResult | None = None  # the last result that was not safe enough
        self._failures: list[Exception] = []

    def after(self, queue: MessageQueue, outcome: SendResult | Exception, now_ms: int) -> Step:
        """The next step after an attempt at `queue` with this outcome."""
        self._count += 1
        self._failed_brokers.add(queue.broker_name)
        policy = self._policy
        if isinstance(outcome, Exception):
            self._failures.append(outcome)
            may_retry = self._is_temporary(outcome)
        else:
            self._stored = outcome
            may_retry = policy.when_not_safe and outcome.status is not SendStatus.OK
        if not may_retry or self._count > policy.retries or now_ms >= self._deadline_ms:
            return self._end()
        return self._next(queue, now_ms)

    def _is_temporary(self, error: Exception) -> bool:
        if isinstance(error, Refused):
            return error.code in self._policy.codes
        return isinstance(error, Unreachable | TimedOut | NoRoute)

    def _next(self, queue: MessageQueue, now_ms: int) -> Step:
        if self._policy.same_queue:
            return TryAgain(queue)  # without a delay: sends of one queue keep their order
        try:
            queue = self._next_queue(queue.broker_name)
        except NoRoute as error:
            self._failures.append(error)
            return self._end()
        delay_ms = 0
        if queue.broker_name in self._failed_brokers:
            delay_ms = self._backoff_ms()
            if delay_ms and now_ms + delay_ms >= self._deadline_ms:
                return self._end()
        return TryAgain(queue, delay_ms)

    def _backoff_ms(self) -> int:
        """Doubles with each return, up to a second; half of it is random."""
        delay_ms = min(_BACKOFF_MS_MAX, self._policy.backoff_ms << self._returns)
        self._returns += 1
        return round(delay_ms * (0.5 + self._chance() / 2))

    def _end(self) -> Done | Failed:
        if self._stored is not None:
            return Done(self._stored)
        failures = self._failures
        error = ([each for each in failures if _may_be_stored(each)] or failures)[-1]
        if len(failures) > 1:
            error.add_note(f"tried {len(failures)} times: " + "; then ".join(map(str, failures)))
        return Failed(error)


def _may_be_stored(error: Exception) -> bool:
    return getattr(error, "stored", StoredState.NO) is StoredState.UNKNOWN
