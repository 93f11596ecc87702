"""Callbacks of sends and requests, called one after the other on a thread beside the loop.

As they may wait there, a callback may send again, as in Java. The thread starts with the first
send that has one; it never keeps the process.
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

_END_S_MAX = 3  # that callbacks have at the end, as listeners of consumers have


class SendCallback:
    """Told what became of a send, on a thread of the producer's, where it may wait and send."""

    def onSuccess(self, result: SendResult) -> None:
        """A broker has it."""

    def onException(self, error: Exception) -> None:
        """No broker is known to have it; after a lost answer, one may."""


class RequestCallback:
    """Told what became of a request, where sends are."""

    def onSuccess(self, reply: MessageExt) -> None:
        """A consumer has answered."""

    def onException(self, error: Exception) -> None:
        """No reply has come; somebody may have the request."""


class Callbacks:
    """Those of one producer, called in the order in which sends end."""

    def __init__(self) -> None:
        self._line: SimpleQueue[Callable[[], None] | None] = SimpleQueue()  # None ends the thread
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False

    def teller(self, callback: Any, wrap: Callable[[Any], object]) -> Callable[[Any], None]:
        """What puts this callback in line, with what comes wrapped, or with the error.

        TooManyRequests while very many stand there.
        """
        if self._line.qsize() >= CLIENT_ASYNC_MAX:
            raise TooManyRequests("callbacks take longer than sends: send more slowly")
        with self._lock:
            if self._is_closed:
                raise Closed("the producer is shut down: make another")
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="cometmq-callbacks", daemon=True
                )
                self._thread.start()
        return lambda outcome: self._line.put(partial(_tell, callback, wrap, outcome))

    def close(self) -> None:
        """Return when those in line were called, or the time for them is over."""
        with self._lock:
            self._is_closed = True
            thread, self._thread = self._thread, None
        if thread is not None:
            self._line.put(None)
            if thread is not threading.current_thread():  # of a callback that shuts us down
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
    except BaseException:  # also of sys.exit: it would end the thread, and no other were told
        log.exception("a callback failed: %r", callback)
