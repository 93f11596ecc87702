"""Reports changed queues of topics, for users who assign queues themselves."""

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cometmq.client.namespace import Namespace
from cometmq.client.session.connections import failure_level
from cometmq.client.session.routes import Routes
from cometmq.errors import NoRoute, PeerError, WorldError
from cometmq.protocol.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

# Called with the topic and all its queues.
OnQueuesChanged = Callable[[str, list[MessageQueue]], Awaitable[None] | None]


@dataclass(slots=True)
class _Watched:
    topic: str
    callback: OnQueuesChanged
    seen: frozenset[MessageQueue] | None = None  # None before the first check


class QueueWatch:
    """Compares the queues of topics with those of the last check; the first check records them."""

    def __init__(self, routes: Routes, namespace: Namespace) -> None:
        self._routes = routes
        self._namespace = namespace
        self._watched: list[_Watched] = []

    def add(self, topic: str, callback: OnQueuesChanged) -> None:
        """Call `callback` when the queues of this topic have changed."""
        self._watched.append(_Watched(topic, callback))

    async def check(self) -> None:
        """Check all topics. A topic whose route cannot be fetched counts as unchanged."""
        for watched in list(self._watched):
            try:
                await self._check(watched)
            except (PeerError, WorldError) as error:
                log.log(failure_level(error), "cannot check queues of %s: %s", watched.topic, error)
            except Exception:
                log.exception("callback of changed queues of %s failed", watched.topic)

    async def _check(self, watched: _Watched) -> None:
        try:
            route = await self._routes.fetch(self._namespace.wire(watched.topic))
            queues = frozenset(map(self._namespace.bare_queue, route.to_read))
        except NoRoute:
            queues = frozenset()
        before, watched.seen = watched.seen, queues
        if before is not None and before != queues:
            called = watched.callback(watched.topic, sorted(queues))
            if inspect.isawaitable(called):
                await called
