"""Tells when the queues of a topic have changed, to those who assign queues themselves."""

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from cometmq.client.namespace import Namespace
from cometmq.client.session.routes import Routes
from cometmq.errors import NoRoute, PeerError, WorldError
from cometmq.protocol.bodies.queues import MessageQueue

log = logging.getLogger(__name__)

# Given the topic and all the queues it has now.
Told = Callable[[str, list[MessageQueue]], Awaitable[None] | None]


@dataclass(slots=True)
class _Watched:
    topic: str
    tell: Told
    seen: frozenset[MessageQueue] | None = None  # None before the first look


class QueueWatch:
    """Looks when it is told to; the first look only learns what is there."""

    def __init__(self, routes: Routes, namespace: Namespace) -> None:
        self._routes = routes
        self._namespace = namespace
        self._watched: list[_Watched] = []

    def add(self, topic: str, tell: Told) -> None:
        """Tell of this topic from now on."""
        self._watched.append(_Watched(topic, tell))

    async def look(self) -> None:
        """At all of them. A topic that cannot be looked at just now counts as unchanged."""
        for watched in list(self._watched):
            try:
                await self._look(watched)
            except (PeerError, WorldError) as error:
                log.warning("the queues of %s are not known just now: %s", watched.topic, error)
            except Exception:
                log.exception("the callback for the queues of %s failed", watched.topic)

    async def _look(self, watched: _Watched) -> None:
        try:
            route = await self._routes.fetch(self._namespace.wire(watched.topic))
            queues = frozenset(map(self._namespace.bare_queue, route.to_read))
        except NoRoute:
            queues = frozenset()
        before, watched.seen = watched.seen, queues
        if before is not None and before != queues:
            told = watched.tell(watched.topic, sorted(queues))
            if inspect.isawaitable(told):
                await told
