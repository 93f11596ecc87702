"""Sends that nobody awaits: whoever sent is called with what became of it.

One that can leave at once needs no task and no future, and is the cheapest (bench/client.py). One
that must wait for a route, a connection or its retries runs as a task.
"""

import asyncio
import inspect
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from cometmq.client.message import SendResult
from cometmq.client.send.destinations import Destination
from cometmq.client.send.in_flight import UnderWay
from cometmq.client.send.queue_request import ANY, QueueRequest
from cometmq.client.send.sending import Sending
from cometmq.client.send.write_batcher import Outcome, Try
from cometmq.errors import TooManyRequests, Unreachable
from cometmq.protocol.limits import CLIENT_ASYNC_MAX

log = logging.getLogger(__name__)

_CUT_SHORT = "closed before the answer came: a broker may have stored the message, or not"

R = TypeVar("R")
Callback = Callable[[SendResult | Exception], object]


@dataclass(frozen=True, slots=True)
class Telling:
    """Of one producer. A callback is called once, on the loop, never before its send returns."""

    sending: Sending
    under_way: UnderWay
    # Goes on with a send whose first try has failed so.
    resume: "Callable[[ToldTry, Exception], Coroutine[Any, Any, SendResult]]"

    @property
    def has_room(self) -> bool:
        """Another send may begin."""
        return self.under_way.count < CLIENT_ASYNC_MAX

    def run(
        self, work: Coroutine[Any, Any, R], callback: Callable[[R | Exception], object]
    ) -> None:
        """Tell what this comes to."""
        if not self.has_room:
            work.close()
            self.fail(TooManyRequests("too many sends wait already: await flush()"), callback)
        else:
            self.under_way.count += 1
            self._begin(work, callback)

    def fail(self, error: Exception, callback: Callable[[Exception], object]) -> None:
        """Tell it in a later turn: a callback that sends again would else go ever deeper."""
        self.under_way.count += 1
        asyncio.get_running_loop().call_soon(self.tell, error, callback)

    def tell(self, outcome: R, callback: Callable[[R], object]) -> None:
        """It is over."""
        try:
            returned = callback(outcome)
            if returned is not None and inspect.iscoroutine(returned):
                returned.close()
                log.error("%r is a coroutine function, which is not run: use a plain one", callback)
        except Exception:
            log.exception("the callback of a send failed")
        self.under_way.end()

    def first_over(self, one: "ToldTry", outcome: Outcome) -> None:
        """There may be other tries after the first."""
        assert one.callback is not None, "of `send_soon`"
        if isinstance(outcome, Unreachable) and self.sending.config.async_retries:
            self._begin(self.resume(one, outcome), one.callback)
        else:
            self.tell(outcome, one.callback)

    def _begin(
        self, work: Coroutine[Any, Any, R], callback: Callable[[R | Exception], object]
    ) -> None:
        """As a task; one that is ended before it begins is told of as well."""
        outcomes: list[R | Exception] = []
        task = self.sending.session.background.start(_noted(work, outcomes), "send")

        def end(_: object) -> None:
            work.close()  # if it has not begun
            self.tell(outcomes[0] if outcomes else Unreachable(_CUT_SHORT), callback)

        task.add_done_callback(end)


async def _noted(work: Coroutine[Any, Any, R], outcomes: list[R | Exception]) -> None:
    try:
        outcomes.append(await work)
    except Exception as error:  # noqa: BLE001 - whoever sent it is told
        outcomes.append(error)


class ToldTry(Try):
    """By who is called with what became of it, in the turn that brings it."""

    destination: Destination = None  # type: ignore[assignment] # always given
    choice: QueueRequest = ANY
    told: "Told" = None  # type: ignore[assignment] # always given
    callback: Callback | None = None
    is_forgotten: bool = False

    def done(self) -> bool:
        """Nobody waits any more."""
        return self.is_forgotten

    def forget(self) -> None:
        """Nobody waits any more from now on."""
        self.is_forgotten = True
        Try.forget(self)

    def tell(self, outcome: Outcome) -> None:
        """It is over, but for tries that may follow."""
        self.told(self, outcome)


Told = Callable[[ToldTry, Outcome], None]
