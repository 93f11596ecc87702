"""The cache of routes (topic to queues) and broker addresses, refreshed periodically."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from cometmq.client.session.connections import failure_level
from cometmq.client.session.name_servers import NameServers
from cometmq.client.session.route import ClientRoute
from cometmq.errors import NoRoute, PeerError, Unreachable
from cometmq.protocol.bodies.route import MASTER_ID, TopicRoute
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.namesrv import RouteHeader
from cometmq.protocol.java.fastjson import loads

log = logging.getLogger(__name__)

T = TypeVar("T")


class Routes:
    """Routes and broker addresses. A topic that was requested once is refreshed from then on."""

    def __init__(self, servers: NameServers, address_map: Mapping[str, str]) -> None:
        self._servers = servers
        self._address_map = address_map
        self._routes: dict[str, ClientRoute] = {}
        self._fetches = _Shared(self._fetch)
        self._patterns = _Shared(self._asked)
        self._addresses: dict[str, Mapping[int, str]] = {}  # of brokers, by name and id
        self._unserved: set[str] = set()  # brokers that were in no route at the last refresh
        self._listeners: list[Callable[[ClientRoute], None]] = []
        self._broker_listeners: list[Callable[[], object]] = []

    def on_change(self, tell: Callable[[ClientRoute], None]) -> Callable[[], None]:
        """Call `tell` with each new or changed route; the returned function ends that."""
        self._listeners.append(tell)
        return partial(self._listeners.remove, tell)

    def on_new_broker(self, tell: Callable[[], object]) -> None:
        """Call `tell` when a broker or an address of a broker is new."""
        self._broker_listeners.append(tell)

    def known(self, topic: str) -> ClientRoute | None:
        """Return the cached route, or None."""
        return self._routes.get(topic)

    async def of(self, topic: str) -> ClientRoute:
        """Return the cached route, or fetch it. Raises NoRoute if the topic has none."""
        return self._routes.get(topic) or await self.fetch(topic)

    async def fetch(self, topic: str) -> ClientRoute:
        """Fetch the route; concurrent callers share one request."""
        return await self._fetches.of(topic)

    async def of_new(self, topic: str, pattern: str, queues_max: int) -> ClientRoute:
        """Return the route; for a missing topic, a guess from the route of `pattern`.

        A guess is not cached here.
        """
        try:
            return await self.of(topic)
        except NoRoute:
            try:
                body = await self._patterns.of(pattern)
            except NoRoute:
                pass  # no broker creates topics: the first error says what to do
            else:
                route = ClientRoute.of_pattern(topic, body, queues_max)
                self._note_brokers(route)
                return route
            raise

    async def refresh(self) -> None:
        """Fetch all cached routes again; a route that cannot be fetched stays unchanged."""
        found = await asyncio.gather(*map(self.fetch, list(self._routes)), return_exceptions=True)
        for error in found:
            if isinstance(error, NoRoute):
                log.warning("%s", error)
            elif isinstance(error, Unreachable | PeerError):
                log.log(failure_level(error), "routes are not refreshed: %s", error)
                break
            elif isinstance(error, BaseException):
                raise error
        self._forget_brokers()

    def address_of(self, broker_name: str, broker_id: int = MASTER_ID) -> str | None:
        """Return the address of one node of a broker, or None."""
        address = self._addresses.get(broker_name, {}).get(broker_id)
        return address and self._address_map.get(address, address)

    def any_address_of(self, broker_name: str) -> str | None:
        """Return the address of the master, or of a slave if there is no master."""
        nodes = self._addresses.get(broker_name, {})
        return self.address_of(broker_name, min(nodes)) if nodes else None

    @property
    def brokers(self) -> dict[str, dict[int, str]]:
        """The addresses of all known brokers, by name and id."""
        return {
            name: {each: self._address_map.get(address, address) for each, address in nodes.items()}
            for name, nodes in self._addresses.items()
        }

    async def _fetch(self, topic: str) -> ClientRoute:
        route = ClientRoute.of(topic, await self._asked(topic))
        self._note_brokers(route)
        if route != self._routes.get(topic):
            self._routes[topic] = route
            for tell in list(self._listeners):
                tell(route)
        return route

    async def _asked(self, topic: str) -> TopicRoute:
        response = await self._servers.ask(
            RequestCode.GET_ROUTEINFO_BY_TOPIC,
            RouteHeader(topic=topic, accept_standard_json_only=True),
        )
        if response.code != ResponseCode.SUCCESS:
            raise NoRoute(
                f"topic {topic} has no route: create it, enable autoCreateTopicEnable, or check"
                " that its broker is running"
            )
        return loads(response.body, TopicRoute)

    def _note_brokers(self, route: ClientRoute) -> None:
        self._unserved -= route.brokers.keys()
        if not route.brokers.items() <= self._addresses.items():
            self._addresses.update(route.brokers)
            for tell in self._broker_listeners:
                tell()

    def _forget_brokers(self) -> None:
        """Drop brokers that were in no route at two consecutive refreshes; guesses need one."""
        served = {name for route in self._routes.values() for name in route.brokers}
        unserved = self._addresses.keys() - served
        for name in unserved & self._unserved:
            del self._addresses[name]
        self._unserved = unserved - self._unserved


class _Shared(Generic[T]):
    """Work by topic: concurrent callers share one task."""

    def __init__(self, work: Callable[[str], Coroutine[Any, Any, T]]) -> None:
        self._work = work
        self._in_flight: dict[str, asyncio.Task[T]] = {}

    async def of(self, topic: str) -> T:
        """Return the result of the running task, or start one."""
        task = self._in_flight.get(topic)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._work(topic))
            self._in_flight[topic] = task
            task.add_done_callback(partial(self._ended, topic))
        return await asyncio.shield(task)

    def _ended(self, topic: str, task: "asyncio.Task[T]") -> None:
        del self._in_flight[topic]
        if not task.cancelled():
            task.exception()  # retrieved here: all callers may have given up
