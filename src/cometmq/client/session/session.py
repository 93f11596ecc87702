"""A session: the connections, routes and heartbeats that clients share.

Producers and consumers join a session as members. A client that is created without a session
creates its own.
"""

import asyncio
import os
import time
from collections.abc import Callable
from ipaddress import ip_address
from random import Random
from typing import Self
from weakref import WeakSet

from cometmq.background import Background
from cometmq.client.config import ClientConfig
from cometmq.client.durations import duration_ms
from cometmq.client.session.connections import Connections, OnConnection
from cometmq.client.session.heartbeats import Heart
from cometmq.client.session.members import ConsumerMember, Members, ProducerMember
from cometmq.client.session.name_servers import NameServers
from cometmq.client.session.requests import client_routes
from cometmq.client.session.routes import Routes
from cometmq.client.session.signing import Signing
from cometmq.client.unique_id import UniqueKeys
from cometmq.errors import BadSetting, Closed, NoRoute
from cometmq.local_address import local_ip
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.headers.base import Header
from cometmq.protocol.records.hosts import second_port_of
from cometmq.protocol.refusal import refusal_of
from cometmq.remoting.dispatch import Dispatcher
from cometmq.remoting.lanes import Lanes
from cometmq.remoting.limits import CLIENT_LIMITS
from cometmq.remoting.pool import Pool
from cometmq.remoting.tls import client_context
from cometmq.seams import Clock, Net, RealClock, RealNet

_LANE_MAX = 10_000  # requests of brokers in flight


class Session:
    """Connections, routes and heartbeats that several producers and consumers share.

    To share a session, pass it to each client and close it after them::

        async with Session(ClientConfig(name_servers="127.0.0.1:9876")) as session:
            async with Producer("shop", session=session) as producer:
                ...

    A session belongs to one event loop and to the process that created it. Programs use the
    constructor, `client_id`, `on_connection` and `close`; the other methods serve the clients.

    Args:
        config: Settings that the clients share.
        clock: Replaces the system clock in tests.
        net: Replaces the network in tests.
    """

    def __init__(
        self, config: ClientConfig, *, clock: Clock | None = None, net: Net | None = None
    ) -> None:
        if not isinstance(config, ClientConfig):
            raise BadSetting(f"config is {config!r}: it must be a ClientConfig")
        self.config = config
        self.clock = clock or RealClock()
        self.chance = Random()  # noqa: S311 - shares out load, keeps no secret
        self.members = Members()
        self.background = Background(self.clock)
        hooks = (
            (Signing(config.access_key, config.secret_key, config.security_token),)
            if config.access_key
            else ()
        )
        dispatcher = Dispatcher(client_routes(self.members), Lanes(_LANE_MAX), hooks)
        tls = config.tls_context or client_context() if config.use_tls else None
        self.connections = Connections(self.clock, self._peer_at)
        self.pool = Pool(
            self.clock,
            net or RealNet(),
            dispatcher,
            limits=CLIENT_LIMITS,
            tls=tls,
            observer=self.connections,
        )
        self.api_timeout_ms = duration_ms(config.api_timeout)
        servers = NameServers(self.pool, config.name_servers, self.api_timeout_ms, self.chance)
        self.routes = Routes(servers, config.address_map)
        self.heart = Heart(
            config.client_id, self.members, self.pool, self.routes, self.api_timeout_ms
        )
        self.unique_key = UniqueKeys(_address_bytes(config.client_ip), self.clock)
        self.loop: asyncio.AbstractEventLoop | None = (
            None  # the loop on which the first client joined
        )
        self.closed_why = ""  # empty while the session is open
        self._closing: asyncio.Task[None] | None = None
        _all.add(self)

    @classmethod
    def own(cls, config: ClientConfig, *, keep_name: bool = False) -> Self:
        """Create the session of one client; its instance name is unique unless `keep_name`."""
        if not keep_name:
            config = config.with_own_instance(os.getpid(), time.time_ns())
        return cls(config)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """The id by which brokers know this client: `ip@instance`."""
        return self.config.client_id

    def check_open(self) -> None:
        """Raise Closed if the session is closed."""
        if self.closed_why:
            raise Closed(self.closed_why)

    def check_here(self) -> None:
        """Raise Closed if the session is closed or belongs to another event loop."""
        self.check_open()
        if self.loop not in (None, asyncio.get_running_loop()):
            raise Closed("the client was started on another event loop: create one for each loop")

    async def join_producer(self, member: ProducerMember) -> None:
        """Add a member and send a heartbeat to the known brokers."""
        self._begin()
        self.members.join_producer(member)
        try:
            await self.heart.beat()
        except BaseException:  # for example cancellation
            self.members.leave_producer(member)
            raise

    async def join_consumer(self, member: ConsumerMember) -> None:
        """Add a member and send a heartbeat to the known brokers."""
        self._begin()
        self.members.join_consumer(member)
        try:
            await self.heart.beat()
        except BaseException:  # for example cancellation
            self.members.leave_consumer(member)
            raise

    # A member is removed before the brokers are notified, so that no heartbeat can add it again. A
    # closed session, or its copy in a forked child, has no connections and notifies nobody.

    async def leave_producer(self, member: ProducerMember) -> None:
        """Remove a member and notify the brokers."""
        addresses = self.heart.addresses()
        self.members.leave_producer(member)
        if not self.closed_why:
            await self.heart.leave(addresses, producer=member.group)

    async def leave_consumer(self, member: ConsumerMember) -> None:
        """Remove a member and notify the brokers."""
        addresses = self.heart.addresses()  # includes slaves while it is a member
        self.members.leave_consumer(member)
        if not self.closed_why:
            await self.heart.leave(addresses, consumer=member.group)

    async def ask(
        self,
        address: str,
        code: RequestCode,
        header: Header | None = None,
        body: bytes = b"",
        *,
        timeout_ms: int | None = None,
    ) -> Command:
        """Send a request and return the response. Raises Refused if the broker declines."""
        self.check_here()
        if timeout_ms is None:
            timeout_ms = self.api_timeout_ms
        response = await self.pool.invoke(address, code, header, body, timeout_ms=timeout_ms)
        if response.code != ResponseCode.SUCCESS:
            raise refusal_of(response, f"broker {address}")
        return response

    def on_connection(self, callback: OnConnection) -> Callable[[], None]:
        """Call `callback` when a broker or name server is connected, disconnected or reconnected.

        The callback receives a `ConnectionEvent`. It runs on the event loop: it must be a plain
        function and must not block. Exceptions are logged.

        Returns:
            A function that removes the callback.

        Raises:
            BadSetting: `callback` cannot be called with one argument.
        """
        return self.connections.on_connection(callback)

    def master_of(self, broker_name: str) -> str:
        """Return the address of a master. Raises NoRoute if it is unknown."""
        address = self.routes.address_of(broker_name)
        if address is None:
            raise NoRoute(f"broker {broker_name} has no known master: check that it is running")
        return self.vip(address)

    def vip(self, address: str) -> str:
        """Return the broker's second port if `vip_channel_enabled` is set, else its address."""
        return second_port_of(address) if self.config.vip_channel_enabled else address

    async def close(self) -> None:
        """Close all connections. Close the clients that share the session first.

        Further calls wait for the first one. If the caller is cancelled, closing still completes
        before the cancellation is raised.
        """
        if not self.closed_why:
            self.closed_why = "the client is closed"
            self._closing = asyncio.get_running_loop().create_task(self._end())
        if self._closing is not None:
            try:
                await asyncio.shield(self._closing)
            except asyncio.CancelledError:
                await asyncio.wait([self._closing])
                raise

    async def _end(self) -> None:
        try:
            await self.background.close()
        finally:
            await self.pool.close()

    def forked(self) -> None:
        """Disable this copy in a forked child: the connections belong to the parent."""
        self.closed_why = (
            "the client was created before a fork: create another one in the child process"
        )
        self._closing = None  # it belongs to the parent
        self.pool.leave_behind()

    def _peer_at(self, address: str) -> str:
        for name, nodes in self.routes.brokers.items():
            if address in nodes.values() or address in map(second_port_of, nodes.values()):
                return f"broker {name}"
        return "name server" if address in self.config.name_servers else "broker"

    def _begin(self) -> None:
        self.check_here()
        if self.loop is not None:
            return
        self.loop = asyncio.get_running_loop()
        config, background = self.config, self.background
        self.routes.on_new_broker(lambda: background.start(self.heart.beat(), "heartbeat"))
        background.every(
            lambda: duration_ms(config.poll_name_server_interval),
            self.routes.refresh,
            "route refresh",
        )
        background.every(
            lambda: duration_ms(config.heartbeat_broker_interval), self.heart.beat, "heartbeat"
        )


def _address_bytes(client_ip: str) -> bytes:
    """Return the address in unique keys; `client_ip` may be any string, as in Java."""
    try:
        return ip_address(client_ip).packed
    except ValueError:
        return ip_address(local_ip()).packed


_all: WeakSet[Session] = WeakSet()


def _all_forked() -> None:
    for session in list(_all):
        session.forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_all_forked)
