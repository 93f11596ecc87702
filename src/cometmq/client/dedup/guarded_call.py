"""One call of a guarded listener: what it is given of what came, and what becomes of the keys.

Of a list, those that are done are left out, and so is all from the first on that must come again,
as a consumer can be told only that the first so many are consumed:

    done  run  done  run  later  run        the listener is given the two `run` before `later`;
    `------- Ack(4) -----'                   the last two come again
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
    """See the top of the file. After `may_run`, one of `end` and `release` ends it."""

    @property
    def may_run(self) -> bool:
        """The listener is called."""

    @property
    def given(self) -> Any:
        """With this."""

    def skipped(self) -> Any:
        """What to return where it is not called; raises what brings the messages again."""

    def end(self, result: Any, is_done: IsDone) -> Any:
        """It returned: keys are done or free, and this is to be returned for all that came."""

    def release(self) -> None:
        """It raised: its keys are free."""


@dataclass(frozen=True, slots=True)
class OneRound:
    """Of one message."""

    given: ReceivedMessage
    attempt: KeyAttempt

    @property
    def may_run(self) -> bool:
        """Nobody else has its key."""
        return self.attempt.verdict is KeyVerdict.RUN

    def skipped(self) -> None:
        """Nothing, for one that is done."""
        if self.attempt.verdict is KeyVerdict.LATER:
            raise _in_progress(self.attempt)

    def end(self, result: Any, is_done: IsDone) -> Any:
        """What the listener said."""
        self.attempt.end(is_done(result))
        return result

    def release(self) -> None:
        """If it is ours."""
        if self.may_run:
            self.attempt.release()


@dataclass(frozen=True, slots=True)
class BatchRound:
    """Of a list."""

    messages: list[ReceivedMessage]
    attempts: list[KeyAttempt]  # of the first of them
    stopped_by: Exception | None  # why not of all

    @classmethod
    def begun(cls, messages: list[ReceivedMessage], begin: Begin) -> "BatchRound":
        """The first phase for as many as can be."""
        attempts: list[KeyAttempt] = []
        ours: set[str] = set()
        for message in messages:
            try:
                attempt = begin(message)
                # Two of one key in one list: the first stands for both.
                if attempt.verdict is KeyVerdict.LATER and attempt.key not in ours:
                    raise _in_progress(attempt)
            except Exception as error:  # noqa: BLE001 - raised, if it comes first
                return cls(messages, attempts, error)
            if attempt.verdict is KeyVerdict.RUN:
                ours.add(attempt.key)
            attempts.append(attempt)
        return cls(messages, attempts, None)

    @property
    def may_run(self) -> bool:
        """There are some with keys that nobody else has."""
        return bool(self._running)

    @property
    def given(self) -> list[ReceivedMessage]:
        """Those."""
        return [self.messages[at] for at in self._running]

    def skipped(self) -> Ack | None:
        """All that came first are done."""
        if self.stopped_by is None:
            return None
        if not self.attempts:
            raise self.stopped_by
        return Ack(len(self.attempts))

    def end(self, result: Any, is_done: IsDone) -> Any:
        """What the listener said, told of all that came and not of those it was given."""
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
        """The delay that was chosen; but what the listener was not given is no dead letter."""
        was_given_all = len(self._running) == len(self.messages)
        return result.delay_level if was_given_all else max(result.delay_level, 0)

    def release(self) -> None:
        """Those that are ours."""
        for at in self._running:
            self.attempts[at].release()

    @property
    def _running(self) -> list[int]:
        """Where in the list those are that the listener is given."""
        return [at for at, each in enumerate(self.attempts) if each.verdict is KeyVerdict.RUN]


def _in_progress(attempt: KeyAttempt) -> InProgress:
    return InProgress(f"{attempt.key} is in progress elsewhere: the message comes again")
