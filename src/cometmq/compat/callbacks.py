"""Callbacks of sends and requests, called one after the other on a separate thread.

A callback may block and send again, as in Java. The thread is a daemon; it starts with the first
send that has a callback.
"""

import logging
import threading
from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from typing import Any

from cometmq.compat.messages import MessageExt, SendResult
from cometmq.errors import Closed, TooManyRequests
from cometmq.protocol.limits import CLIENT_ASYNC_MAX

log = logging.getLogger(__name__)

_END_S_MAX = 3  # time for queued callbacks at the end, as for listeners


class SendCallback:
    """Receives the outcome of a send, on the producer's callback thread; it may block."""

    def onSuccess(self, result: SendResult) -> None:
        """A broker has it."""

    def onException(self, error: Exception) -> None:
        """The send failed; after a lost answer, the message may be stored."""


class RequestCallback:
    """Receives the outcome of a request, on the producer's callback thread."""

    def onSuccess(self, reply: MessageExt) -> None:
        """A consumer has answered."""

    def onException(self, error: Exception) -> None:
        """No reply arrived; a consumer may have received the request."""


class Callbacks:
    """The callbacks of one producer, called in the order in which sends end."""

    def __init__(self) -> None:
        self._line: SimpleQueue[Callable[[], None] | None] = SimpleQueue()  # None ends the thread
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def teller(self, callback: Any, wrap: Callable[[Any], object]) -> Callable[[Any], None]:
        """Return a function that queues the callback with the wrapped result or the error.

        Raises TooManyRequests if too many callbacks are queued.
        """
        if self._line.qsize() >= CLIENT_ASYNC_MAX:
            raise TooManyRequests("callbacks take longer than sends: send more slowly")
        with self._lock:
            if self._is_closed:
                raise Closed("the producer is shut down: create another one")
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="cometmq-callbacks", daemon=True
                )
                self._thread.start()
        return lambda outcome: self._line.put(partial(_tell, callback, wrap, outcome))

    def close(self) -> None:
        """Wait for queued callbacks, at most 3 seconds."""
        with self._lock:
            self._is_closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._line.put(None)
            if thread is not threading.current_thread():  # a callback may shut the producer down
                thread.join(_END_S_MAX)

    def _work(self) -> None:
        while (work := self._line.get()) is not None:
            work()


def _tell(callback: Any, wrap: Callable[[Any], object], outcome: Any) -> None:
    try:
        if isinstance(outcome, Exception):
            callback.onException(outcome)
        else:
            callback.onSuccess(wrap(outcome))
    except BaseException:  # SystemExit included: it would end the thread
        log.exception("a callback failed: %r", callback)
