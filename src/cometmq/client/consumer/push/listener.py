"""One call of a user's function, and how it is run."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from cometmq.client.consumer.push.handlers import Handlers, MessageHandler
from cometmq.client.consumer.push.owned_queue import OwnedQueue
from cometmq.client.consumer.push.process_queue import ProcessQueue
from cometmq.client.consumer.shared.outcomes import ACK, RETRY, Ack, Outcome, Retry
from cometmq.client.message import ReceivedMessage
from cometmq.errors import BadSetting, Malformed
from cometmq.seams import Clock

_CONCURRENT = (Ack, Retry)


class ListenerCall:
    """Messages of one queue, given to one function.

    Attributes:
        messages: What the function receives.
        error: What it raised.
        took_ms: How long it took.
    """

    __slots__ = (
        "error",
        "handler",
        "messages",
        "owned",
        "process",
        "returned",
        "started_ms",
        "took_ms",
    )

    def __init__(
        self,
        owned: OwnedQueue | None,
        process: ProcessQueue,
        messages: list[ReceivedMessage],
        handler: MessageHandler | None,
    ) -> None:
        self.owned = owned  # None: consume_directly
        self.process = process  # of the queue when they were taken: it may be replaced meanwhile
        self.messages = messages
        self.handler = handler  # None: no function wants them, and they are acknowledged
        self.error: BaseException | None = None
        self.started_ms: int | None = None  # monotonic; None until it runs
        self.took_ms = 0
        self.returned: object = None

    @property
    def attempt(self) -> int:
        """Which delivery of the first message this is, from 1."""
        try:
            return self.messages[0].reconsume_times + 1
        except Malformed:
            return 1

    def is_mistake(self, *, orderly: bool) -> bool:
        """True if the function returned a value that is not an outcome of its kind."""
        allowed = Outcome if orderly else _CONCURRENT
        return self.returned is not None and not isinstance(self.returned, allowed)

    def outcome(self, *, orderly: bool) -> Outcome:
        """The outcome that was returned; RETRY after an exception or a mistake."""
        if self.error is not None or self.is_mistake(orderly=orderly):
            return RETRY
        if self.returned is None:
            return ACK
        assert isinstance(self.returned, Outcome), "everything else is a mistake"
        return self.returned


class ConsumeHook(Protocol):
    """Observes every call of a listener, on the loop. Exceptions are logged and ignored."""

    def before(self, call: ListenerCall) -> None:
        """Called before the function receives the messages."""

    def after(self, call: ListenerCall, outcome: Outcome) -> None:
        """Called with the outcome."""


class Listener:
    """Runs the functions of a consumer. All of them are orderly, or none."""

    def __init__(
        self,
        handlers: Handlers,
        clock: Clock,
        *,
        batch_max: int = 1,
        orderly: bool = False,
        manual_commit: bool = False,
    ) -> None:
        if manual_commit and not orderly:
            raise BadSetting("manual_commit is for orderly listeners: give orderly=True with it")
        self.handlers = handlers
        self._clock = clock
        self.batch_max = batch_max
        self.is_orderly = orderly
        self.commits_itself = manual_commit

    def check_same(self, *, orderly: bool, manual_commit: bool) -> None:
        """Raise BadSetting if another function of this consumer is of another kind."""
        if (orderly, manual_commit) != (self.is_orderly, self.commits_itself):
            raise BadSetting(
                "all functions of a consumer have the same orderly and manual_commit: this one has"
                f" orderly={self.is_orderly} and manual_commit={self.commits_itself}"
            )

    def run(self, call: ListenerCall) -> None:
        """Run the call in this thread. It never raises: exceptions are in the call."""
        if call.process.is_dropped:  # while it waited for a worker
            call.returned = RETRY
            return
        handler = call.handler
        if handler is None:
            return
        started_ms = call.started_ms = self._clock.monotonic_ms()
        try:
            call.returned = handler.function(self._given(call.messages))  # type: ignore[arg-type]
        except BaseException as error:  # noqa: BLE001 - not even SystemExit may end the worker
            call.error = error
        call.took_ms = self._clock.monotonic_ms() - started_ms

    async def run_async(self, call: ListenerCall) -> None:
        """Run the call on the loop. It raises only if its own task is cancelled."""
        if call.process.is_dropped:
            call.returned = RETRY
            return
        handler = call.handler
        if handler is None:
            return
        started_ms = call.started_ms = self._clock.monotonic_ms()
        try:
            answer = handler.function(self._given(call.messages))  # type: ignore[arg-type]
            call.returned = await answer  # type: ignore[misc]
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            call.error = error  # something that the function awaited was cancelled
        except (KeyboardInterrupt, SystemExit):
            raise  # they end the loop
        except BaseException as error:  # noqa: BLE001 - it is logged with its messages
            call.error = error
        call.took_ms = self._clock.monotonic_ms() - started_ms

    def _given(
        self, messages: Sequence[ReceivedMessage]
    ) -> ReceivedMessage | Sequence[ReceivedMessage]:
        return messages if self.batch_max > 1 else messages[0]
