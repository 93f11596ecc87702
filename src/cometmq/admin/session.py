"""How the functions of this package talk: to any name server, to all of them, to one broker.

No member of a cluster: it sends no heartbeat and keeps no route longer than a command takes.
"""

# A field that checks itself is a descriptor, and stands where a default would.
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
_AT_ONCE_MAX = 32  # questions under way

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class AdminConfig(CheckedConfig):
    """Whom to talk to, and how. Without name servers, what needs none works."""

    name_servers: Addresses = Addresses(())
    timeout: Seconds = Seconds(TIMEOUT_MS / 1000, 0.001)
    access_key: Text = Text()
    secret_key: Text = field(default=Text(secret=True), repr=False)
    tls: Optional[SSLContext] = Optional(SSLContext)
    address_map: AddressMap = AddressMap()  # where a broker really is, by its registered address
    dry_run: Flag = Flag(False)  # changes are shown and not made
    language: Text = Text(LANGUAGE, blank=False)  # a broker answers C++ in other forms


class AdminSession:
    """See the top of the file. A context manager."""

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
        self._under_way = asyncio.Semaphore(_AT_ONCE_MAX)
        self._cluster: ClusterInfo | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pool.close()

    @property
    def name_servers(self) -> tuple[str, ...]:
        """All of them, if there are any."""
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
        """The answer of one server that grants what is asked; Refused, with its reason, if not."""
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
        """The answer of one server, whatever its code."""
        address = self.config.address_map.get(address, address)
        limit_ms = self._timeout_ms if timeout_ms is None else timeout_ms
        async with self._under_way:
            return await self._pool.invoke(address, code, header, body, timeout_ms=limit_ms)

    async def ask_any_server(self, code: RequestCode, header: Header | None = None) -> Command:
        """The answer of the first name server that gives one; Refused if it grants nothing."""
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
            f"no name server answers ({'; '.join(failures)}): is the address right?"
            " -n gives it, or NAMESRV_ADDR"
        )

    async def change(
        self,
        what: str,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
    ) -> Change:
        """Have one server do something, unless this is a dry run; says what came of it."""
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
        """Have all name servers do it: they do not tell each other."""
        return await self.all(
            self.change(what, server, code, header, body) for server in self.name_servers
        )

    async def all(self, work: Iterable[Awaitable[T]]) -> list[T]:
        """Side by side, as far as so many questions may be."""
        return await asyncio.gather(*work)

    async def rounds(self, interval_s: int | None, count: int | None) -> AsyncIterator[int]:
        """Numbers from 0 on, an interval apart; without an interval, one."""
        done = 0
        while True:
            yield done
            done += 1
            if not interval_s or done == count:
                return
            await self.clock.sleep_ms(interval_s * 1000)
            self._cluster = None  # it may be another by now

    async def cluster(self) -> ClusterInfo:
        """Which brokers there are; asked once."""
        if self._cluster is None:
            response = await self.ask_any_server(RequestCode.GET_BROKER_CLUSTER_INFO)
            self._cluster = loads(response.body, ClusterInfo)
        return self._cluster

    async def route(self, topic: str) -> TopicRoute:
        """Who serves a topic; NoRoute if nobody does."""
        header = RouteHeader(topic=topic, accept_standard_json_only=True)
        try:
            response = await self.ask_any_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
        except Refused as refused:
            if refused.code != ResponseCode.TOPIC_NOT_EXIST:
                raise
            raise NoRoute(
                f"no broker serves topic {topic}: create it, or check that its brokers are up"
            ) from refused
        return loads(response.body, TopicRoute)

    async def masters(self, broker: str | None, cluster: str | None) -> list[str]:
        """The address that was given, or those of the masters of a cluster."""
        if broker:
            return [broker]
        return [nodes[MASTER_ID] for nodes in await self._nodes(cluster) if MASTER_ID in nodes]

    async def nodes(self, broker: str | None, cluster: str | None) -> list[str]:
        """The address that was given, or those of the masters and slaves of a cluster."""
        if broker:
            return [broker]
        return [nodes[number] for nodes in await self._nodes(cluster) for number in sorted(nodes)]

    async def master_named(self, broker_name: str) -> str:
        """The address of the master of a broker."""
        known = (await self.cluster()).broker_addr_table
        nodes = known[broker_name].broker_addrs if broker_name in known else {}
        if MASTER_ID not in nodes:
            names = ", ".join(sorted(known)) or "none"
            raise NoRoute(f"there is no master of a broker {broker_name}; brokers are: {names}")
        return nodes[MASTER_ID]

    async def name_at(self, address: str) -> str:
        """The name of the broker that tells this address."""
        for name, known in (await self.cluster()).broker_addr_table.items():
            if address in known.broker_addrs.values():
                return name
        raise NoRoute(f"no broker at {address} is known to the name servers")

    async def _nodes(self, cluster: str | None) -> list[dict[int, str]]:
        """Addresses by id, of each broker of a cluster, or of all clusters."""
        found = await self.cluster()
        if cluster and cluster not in found.cluster_addr_table:
            names = ", ".join(sorted(found.cluster_addr_table)) or "none"
            raise NoRoute(f"there is no cluster {cluster}; clusters are: {names}")
        chosen = [cluster] if cluster else sorted(found.cluster_addr_table)
        names_of = {name for each in chosen for name in found.cluster_addr_table[each]}
        return [
            found.broker_addr_table[name].broker_addrs
            for name in sorted(names_of)
            if name in found.broker_addr_table
        ]


class _Speaking:
    """A hook that says which language we are written in."""

    def __init__(self, language: str) -> None:
        self._language = language

    def before(self, peer: str, request: Command) -> None:
        """Of every request."""
        request.language = self._language

    def after(self, peer: str, request: Command, response: Command) -> None:
        """The answer is the same."""


def _hooks(config: AdminConfig) -> tuple[Hook, ...]:
    hooks: list[Hook] = []
    if config.language != LANGUAGE:
        hooks.append(_Speaking(config.language))
    if config.access_key:
        from cometmq.client.session.signing import Signing

        hooks.append(Signing(config.access_key, config.secret_key))
    return tuple(hooks)
