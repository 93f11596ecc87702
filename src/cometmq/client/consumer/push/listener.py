"""The user's function that is given messages, and one call of it."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from cometmq.client.callables import check_callable
from cometmq.client.consumer.push.owned_queue import OwnedQueue
from cometmq.client.consumer.push.process_queue import ProcessQueue
from cometmq.client.consumer.shared.outcomes import ACK, RETRY, Ack, Outcome, Retry
from cometmq.client.message import ReceivedMessage
from cometmq.errors import BadSetting
from cometmq.seams import Clock

log = logging.getLogger(__name__)

Said = Outcome | None
Handler = (
    Callable[[ReceivedMessage], Said]
    | Callable[[ReceivedMessage], Awaitable[Said]]
    | Callable[[list[ReceivedMessage]], Said]
    | Callable[[list[ReceivedMessage]], Awaitable[Said]]
)

_SIDE_BY_SIDE = (Ack, Retry)


class ListenerCall:
    """Messages of one queue on their way through the listener."""

    __slots__ = ("error", "messages", "owned", "process", "returned", "started_ms", "took_ms")

    def __init__(
        self, owned: OwnedQueue | None, process: ProcessQueue, messages: list[ReceivedMessage]
    ) -> None:
        self.owned = owned  # None: consume_directly
        self.process = process  # of the queue when they were taken: it may begin anew meanwhile
        self.messages = messages
        self.error: BaseException | None = None
        self.started_ms: int | None = None  # monotonic; None while it stands in line
        self.took_ms = 0
        self.returned: object = None  # nothing, an outcome, or a mistake

    def outcome(self, *, orderly: bool) -> Outcome:
        """What the listener meant; its mistakes count as a failure, and are logged."""
        if self.error is not None:
            log.warning("a listener failed %s", self.messages[0], exc_info=self.error)
            return RETRY
        if self.returned is None:
            return ACK
        allowed = Outcome if orderly else _SIDE_BY_SIDE
        if not isinstance(self.returned, allowed):
            log.error(
                "a listener returned %r for %s, which comes again: return nothing, or an outcome",
                self.returned,
                self.messages[0],
            )
            return RETRY
        return self.returned


class ConsumeHook(Protocol):
    """Sees every call of a listener, on the loop. What it raises is logged, and changes nothing."""

    def before(self, call: ListenerCall) -> None:
        """The messages go to the listener now."""

    def after(self, call: ListenerCall, outcome: Outcome) -> None:
        """What it made of them."""


class Listener:
    """A handler: a plain function, run in a thread, or a coroutine function, run on the loop.

    It is given one message at a time; with `consume_message_batch_max_size` above 1 a list.
    """

    def __init__(
        self,
        handler: Handler,
        clock: Clock,
        *,
        batch_max: int = 1,
        orderly: bool = False,
        manual_commit: bool = False,
    ) -> None:
        check_callable(
            "a listener", handler, "a message" if batch_max == 1 else "a list of messages"
        )
        if manual_commit and not orderly:
            raise BadSetting("manual_commit is for orderly listeners: give orderly=True with it")
        self.handler = handler
        self._clock = clock
        self.name = getattr(handler, "__qualname__", None) or repr(handler)
        self.batch_max = batch_max
        self.is_orderly = orderly
        self.commits_itself = manual_commit
        self.is_async = inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(
            getattr(handler, "__call__", None)  # noqa: B004 - of an object, is it a coroutine's?
        )

    def run(self, call: ListenerCall) -> None:
        """In a thread. It never raises: whatever happens is in the call."""
        if call.process.is_dropped:  # while it stood in line
            call.returned = RETRY
            return
        started_ms = call.started_ms = self._clock.monotonic_ms()
        try:
            call.returned = self.handler(self._given(call.messages))  # type: ignore[arg-type]
        except BaseException as error:  # noqa: BLE001 - even an exit must not end the worker
            call.error = error
        call.took_ms = self._clock.monotonic_ms() - started_ms

    async def run_async(self, call: ListenerCall) -> None:
        """On the loop. It raises only when it is itself cancelled."""
        if call.process.is_dropped:
            call.returned = RETRY
            return
        started_ms = call.started_ms = self._clock.monotonic_ms()
        try:
            answer = self.handler(self._given(call.messages))  # type: ignore[arg-type]
            call.returned = await answer  # type: ignore[misc]
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            call.error = error  # something that the handler awaited was cancelled
        except (KeyboardInterrupt, SystemExit):
            raise  # they end the loop
        except BaseException as error:  # noqa: BLE001 - it is logged with its messages
            call.error = error
        call.took_ms = self._clock.monotonic_ms() - started_ms

    def _given(
        self, messages: Sequence[ReceivedMessage]
    ) -> ReceivedMessage | Sequence[ReceivedMessage]:
        return messages if self.batch_max > 1 else messages[0]
