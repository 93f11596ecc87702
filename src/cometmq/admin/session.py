"""Requests of the admin functions: to any name server, to all of them, or to one broker.

The session is no client of the cluster: it sends no heartbeats, and caches the cluster and routes
only for one command.
"""

# A descriptor that validates a field is its default.
# ruff: noqa: RUF009

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Self, TypeVar

from cometmq.admin.rows import NOT_DONE, SUCCESS, Change, failed
from cometmq.client.durations import duration_ms
from cometmq.client.fields import (
    Addresses,
    AddressMap,
    CheckedConfig,
    Flag,
    Optional,
    Seconds,
    Text,
)
from cometmq.client.session.name_servers import not_a_name_server
from cometmq.errors import BadSetting, NoRoute, PeerError, Refused, Unreachable, WorldError
from cometmq.protocol.bodies.route import MASTER_ID, ClusterInfo, TopicRoute
from cometmq.protocol.codes import LANGUAGE, RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.headers.base import Header
from cometmq.protocol.headers.namesrv import RouteHeader
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.refusal import refusal_of
from cometmq.remoting.dispatch import Dispatcher, Hook
from cometmq.remoting.lanes import Lanes
from cometmq.remoting.limits import CLIENT_LIMITS
from cometmq.remoting.pool import Pool
from cometmq.seams import Clock, RealClock, RealNet

TIMEOUT_MS = 5_000
_IN_FLIGHT_MAX = 32  # requests

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class AdminConfig(CheckedConfig):
    """Addresses, timeout, credentials and options of an admin session.

    Functions that only send requests to a broker need no name servers.
    """

    name_servers: Addresses = Addresses(())
    timeout: Seconds = Seconds(TIMEOUT_MS / 1000, 0.001)
    access_key: Text = Text()
    secret_key: Text = field(default=Text(secret=True), repr=False)
    tls: Optional[SSLContext] = Optional(SSLContext)
    address_map: AddressMap = (
        AddressMap()
    )  # reachable address of a broker, by its registered address
    dry_run: Flag = Flag(False)  # show changes without making them
    language: Text = Text(LANGUAGE, blank=False)  # a broker answers C++ clients in another format


class AdminSession:
    """Sends requests to name servers and brokers: `async with AdminSession(config) as admin:`."""

    def __init__(self, config: AdminConfig, *, clock: Clock | None = None) -> None:
        self.config = config
        self._timeout_ms = duration_ms(config.timeout)
        self.clock = clock or RealClock()
        self._pool = Pool(
            self.clock,
            RealNet(),
            Dispatcher({}, Lanes(0), _hooks(config)),
            limits=CLIENT_LIMITS,
            tls=config.tls,
        )
        self._in_flight = asyncio.Semaphore(_IN_FLIGHT_MAX)
        self._cluster: ClusterInfo | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The name servers. Raises BadSetting if none is configured."""
        if not self.config.name_servers:
            raise BadSetting("no name server: give -n host:port, or set NAMESRV_ADDR")
        return self.config.name_servers

    async def ask(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int | None = None,
    ) -> Command:
        """The response of one server. Raises Refused unless it is a success."""
        response = await self.invoke(address, code, header, body, timeout_ms=timeout_ms)
        if response.code != ResponseCode.SUCCESS:
            raise refusal_of(response, address)
        return response

    async def invoke(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int | None = None,
    ) -> Command:
        """The response of one server, whatever its code."""
        address = self.config.address_map.get(address, address)
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        async with self._in_flight:
            return await self._pool.invoke(address, code, header, body, timeout_ms=limit_ms)

    async def ask_any_server(self, code: RequestCode, header: Header | None = None) -> Command:
        """The response of the first name server that answers. Raises Refused if it refuses."""
        failures = []
        for server in self.name_servers:
            try:
                return await self.ask(server, code, header)
            except WorldError as error:
                failures.append(str(error))
            except Refused as error:
                if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                failures.append(not_a_name_server(server))
        raise Unreachable(
            f"no name server answers ({'; '.join(failures)}): check the address in -n"
            " or NAMESRV_ADDR"
        )

    async def change(
        self,
        what: str,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
    ) -> Change:
        """Send a change to one server unless this is a dry run; returns the outcome."""
        if self.config.dry_run:
            return Change(address, what, NOT_DONE)
        try:
            await self.ask(address, code, header, body)
        except (PeerError, WorldError) as error:
            return Change(address, what, failed(error))
        return Change(address, what, SUCCESS)

    async def change_servers(
        self, what: str, code: RequestCode, header: Header | None = None, body: bytes = b""
    ) -> list[Change]:
        """Send a change to all name servers, because they do not synchronize."""
        return await self.all(
            self.change(what, server, code, header, body) for server in self.name_servers
        )

    async def all(self, work: Iterable[Awaitable[T]]) -> list[T]:
        """Await all of `work` concurrently; a semaphore bounds the requests in flight."""
        return await asyncio.gather(*work)

    async def rounds(self, interval_s: int | None, count: int | None) -> AsyncIterator[int]:
        """Yield 0, 1, ... with an interval between them; without an interval, only 0."""
        done = 0
        while True:
            yield done
            done += 1
            if not interval_s or done == count:
                return
            await self.clock.sleep_ms(interval_s * 1000)
            self._cluster = None  # brokers may have changed

    async def cluster(self) -> ClusterInfo:
        """All clusters and brokers; requested once per session or round."""
        if self._cluster is None:
            response = await self.ask_any_server(RequestCode.GET_BROKER_CLUSTER_INFO)
            self._cluster = loads(response.body, ClusterInfo)
        return self._cluster

    async def route(self, topic: str) -> TopicRoute:
        """The route of a topic. Raises NoRoute if no broker serves it."""
        header = RouteHeader(topic=topic, accept_standard_json_only=True)
        try:
            response = await self.ask_any_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        except Refused as refused:
            if refused.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            raise NoRoute(
                f"topic {topic} has no route: create it, or check that its brokers are running"
            ) from refused
        return loads(response.body, TopicRoute)

    async def masters(self, broker: str | None, cluster: str | None) -> list[str]:
        """The given address, or the addresses of all masters of a cluster."""
        if broker:
            return [broker]
        return [nodes[MASTER_ID] for nodes in await self._nodes(cluster) if MASTER_ID in nodes]

    async def nodes(self, broker: str | None, cluster: str | None) -> list[str]:
        """The given address, or the addresses of all masters and slaves of a cluster."""
        if broker:
            return [broker]
        return [nodes[number] for nodes in await self._nodes(cluster) for number in sorted(nodes)]

    async def master_named(self, broker_name: str) -> str:
        """The address of a broker's master. Raises NoRoute if it has none."""
        known = (await self.cluster()).broker_addr_table
        nodes = known[broker_name].broker_addrs if broker_name in known else {}
        if MASTER_ID not in nodes:
            names = ", ".join(sorted(known)) or "none"
            raise NoRoute(f"broker {broker_name} has no master; known brokers: {names}")
        return nodes[MASTER_ID]

    async def name_at(self, address: str) -> str:
        """The name of the broker that registered this address."""
        for name, known in (await self.cluster()).broker_addr_table.items():
            if address in known.broker_addrs.values():
                return name
        raise NoRoute(f"no broker is registered with the address {address}")

    async def _nodes(self, cluster: str | None) -> list[dict[int, str]]:
        """For each broker of one or all clusters, its addresses by broker id."""
        found = await self.cluster()
        if cluster and cluster not in found.cluster_addr_table:
            names = ", ".join(sorted(found.cluster_addr_table)) or "none"
            raise NoRoute(f"unknown cluster {cluster}; known clusters: {names}")
        chosen = [cluster] if cluster else sorted(found.cluster_addr_table)
        names_of = {name for each in chosen for name in found.cluster_addr_table[each]}
        return [
            found.broker_addr_table[name].broker_addrs
            for name in sorted(names_of)
            if name in found.broker_addr_table
        ]


class _LanguageHook:
    """Sets the language of every request."""

    def __init__(self, language: str) -> None:
        self._language = language

    def before(self, peer: str, request: Command) -> None:
        request.language = self._language

    def after(self, peer: str, request: Command, response: Command) -> None:
        pass


def _hooks(config: AdminConfig) -> tuple[Hook, ...]:
    hooks: list[Hook] = []
    if config.language != LANGUAGE:
        hooks.append(_LanguageHook(config.language))
    if config.access_key:
        from cometmq.client.session.signing import Signing

        hooks.append(Signing(config.access_key, config.secret_key))
    return tuple(hooks)
