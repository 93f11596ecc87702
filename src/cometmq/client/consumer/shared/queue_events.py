"""Events of a rebalance: callbacks that learn which queues were assigned and revoked.

Callbacks run on the loop, one after the other, in the order of the events. The consumer does not
wait for them, except when it closes.
"""

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence

from cometmq.client.callables import check_callable
from cometmq.client.namespace import Namespace
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.names import RETRY_PREFIX

log = logging.getLogger(__name__)

_CLOSE_S = 3

QueuesCallback = Callable[[list[MessageQueue]], Awaitable[None] | None]


class QueueEvents:
    """The callbacks of one consumer. Queues of the retry topic are not reported."""

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._on_assigned: list[QueuesCallback] = []
        self._on_revoked: list[QueuesCallback] = []
        self._pending: deque[tuple[Sequence[QueuesCallback], list[MessageQueue]]] = deque()
        self._task: asyncio.Task[None] | None = None

    def on_assigned(self, callback: QueuesCallback) -> None:
        """Call it with queues that were assigned to this consumer."""
        check_callable("a callback of assigned queues", callback, "a list of queues")
        self._on_assigned.append(callback)

    def on_revoked(self, callback: QueuesCallback) -> None:
        """Call it with queues that are not this consumer's any more."""
        check_callable("a callback of revoked queues", callback, "a list of queues")
        self._on_revoked.append(callback)

    def assigned(self, queues: Iterable[MessageQueue]) -> None:
        """These queues (named as on the wire) were assigned."""
        self._emit(self._on_assigned, queues)

    def revoked(self, queues: Iterable[MessageQueue]) -> None:
        """These queues (named as on the wire) were revoked."""
        self._emit(self._on_revoked, queues)

    async def close(self) -> None:
        """Wait for the callbacks of all events; cancel those that still run after 3 seconds."""
        if self._task is None:
            return
        await asyncio.wait([self._task], timeout=_CLOSE_S)
        if not self._task.done():
            log.warning("a callback of queue events still runs after %d s: cancelled", _CLOSE_S)
            self._task.cancel()

    def _emit(self, callbacks: Sequence[QueuesCallback], queues: Iterable[MessageQueue]) -> None:
        own = [queue for queue in queues if not queue.topic.startswith(RETRY_PREFIX)]
        if not own or not callbacks:
            return
        self._pending.append((tuple(callbacks), self._namespace.bare_queues(own)))
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._pending:
            callbacks, queues = self._pending.popleft()
            for callback in callbacks:
                try:
                    called = callback(list(queues))
                    if inspect.isawaitable(called):
                        await called
                except Exception:
                    log.exception("callback %r of queue events failed", callback)
