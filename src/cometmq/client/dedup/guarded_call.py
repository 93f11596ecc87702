"""One call of a guarded function: which messages it receives, and what happens to their keys.

Of a list, messages whose keys are done are left out. So are all messages from the first one that
must be redelivered, because an outcome can only acknowledge the first messages of a list:

    done  run  done  run  later  run        the function receives the two `run` before `later`;
    `------- Ack(4) -----'                   the last two are redelivered
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from cometmq.client.consumer.shared.outcomes import Ack, Retry
from cometmq.client.dedup.attempt import KeyAttempt, KeyVerdict
from cometmq.client.message import ReceivedMessage
from cometmq.errors import InProgress

Begin = Callable[[ReceivedMessage], KeyAttempt]
IsDone = Callable[[Any], bool]


class Round(Protocol):
    """See the top of the file. If `may_run`, call `end` or `release` afterwards."""

    @property
    def may_run(self) -> bool:
        """True if the function must be called."""

    @property
    def given(self) -> Any:
        """The argument of the function."""

    def skipped(self) -> Any:
        """The result if the function is not called; raises if messages must be redelivered."""

    def end(self, result: Any, is_done: IsDone) -> Any:
        """The function returned: end the keys, and return the outcome of all messages."""

    def release(self) -> None:
        """The function raised: free its keys."""


@dataclass(frozen=True, slots=True)
class OneRound:
    """The call of a function of one message."""

    given: ReceivedMessage
    attempt: KeyAttempt

    @property
    def may_run(self) -> bool:
        """True if the key was acquired."""
        return self.attempt.verdict is KeyVerdict.RUN

    def skipped(self) -> None:
        """None if the key is done."""
        if self.attempt.verdict is KeyVerdict.LATER:
            raise _in_progress(self.attempt)

    def end(self, result: Any, is_done: IsDone) -> Any:
        """End the key, and return the result."""
        self.attempt.end(is_done(result))
        return result

    def release(self) -> None:
        """Free the key, if it was acquired."""
        if self.may_run:
            self.attempt.release()


@dataclass(frozen=True, slots=True)
class BatchRound:
    """The call of a function of a list."""

    messages: list[ReceivedMessage]
    attempts: list[KeyAttempt]  # of the first messages
    stopped_by: Exception | None  # why there is no attempt for the next message

    @classmethod
    def begun(cls, messages: list[ReceivedMessage], begin: Begin) -> "BatchRound":
        """The first phase, up to the first message that must be redelivered."""
        attempts: list[KeyAttempt] = []
        ours: set[str] = set()
        for message in messages:
            try:
                attempt = begin(message)
                # Two messages of one key in one list: the first one runs for both.
                if attempt.verdict is KeyVerdict.LATER and attempt.key not in ours:
                    raise _in_progress(attempt)
            except Exception as error:  # noqa: BLE001 - raised by `skipped` if it is the first message
                return cls(messages, attempts, error)
            if attempt.verdict is KeyVerdict.RUN:
                ours.add(attempt.key)
            attempts.append(attempt)
        return cls(messages, attempts, None)

    @property
    def may_run(self) -> bool:
        """True if a key was acquired."""
        return bool(self._running)

    @property
    def given(self) -> list[ReceivedMessage]:
        """The messages whose keys were acquired."""
        return [self.messages[at] for at in self._running]

    def skipped(self) -> Ack | None:
        """The first messages are done."""
        if self.stopped_by is None:
            return None
        if not self.attempts:
            raise self.stopped_by
        return Ack(len(self.attempts))

    def end(self, result: Any, is_done: IsDone) -> Any:
        """The outcome for the whole list, from the result for the messages that were given."""
        running = self._running
        good = len(running) if is_done(result) else 0
        if isinstance(result, Ack) and result.count is not None:
            good = min(good, result.count)
        for rank, at in enumerate(running):
            self.attempts[at].end(rank < good)
        consumed = len(self.attempts) if good == len(running) else running[good]
        if consumed == len(self.messages):
            return Ack() if isinstance(result, Ack) else result
        if isinstance(result, Ack):
            return Ack(consumed, self._level(result))
        if good:
            return Ack(consumed)
        return Retry(self._level(result)) if isinstance(result, Retry) else result

    def _level(self, result: Ack | Retry) -> int:
        """The chosen delay level; messages that were not given must not become dead letters."""
        was_given_all = len(self._running) == len(self.messages)
        return result.delay_level if was_given_all else max(result.delay_level, 0)

    def release(self) -> None:
        """Free the acquired keys."""
        for at in self._running:
            self.attempts[at].release()

    @property
    def _running(self) -> list[int]:
        """The indexes of messages whose keys were acquired."""
        return [at for at, each in enumerate(self.attempts) if each.verdict is KeyVerdict.RUN]


def _in_progress(attempt: KeyAttempt) -> InProgress:
    return InProgress(f"{attempt.key} is in progress elsewhere: the message is redelivered")
