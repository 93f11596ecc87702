"""What the producers and consumers of a client share: connections, routes, heartbeats.

It knows no producer or consumer: they join its members. One that is given a session uses it; one
that is not makes its own.
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

_LANE_MAX = 10_000  # requests of brokers that wait for an answer of ours


class Session:
    """See the top of the file. It belongs to one loop, and to the process that made it."""

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
        self.loop: asyncio.AbstractEventLoop | None = None  # on which it has begun
        self.closed_why = ""  # as long as it is not
        self._closing: asyncio.Task[None] | None = None
        _all.add(self)

    @classmethod
    def own(cls, config: ClientConfig, *, keep_name: bool = False) -> Self:
        """Of one client alone: with an instance name that no other has, unless it must keep it."""
        if not keep_name:
            config = config.with_own_instance(os.getpid(), time.time_ns())
        return cls(config)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def client_id(self) -> str:
        """Who we are to brokers."""
        return self.config.client_id

    def check_open(self) -> None:
        """Closed, if it is."""
        if self.closed_why:
            raise Closed(self.closed_why)

    def check_here(self) -> None:
        """Closed, if it is, or of another loop, whose answers would never be heard on this one."""
        self.check_open()
        if self.loop not in (None, asyncio.get_running_loop()):
            raise Closed("it was started on another event loop: make one for each loop")

    async def join_producer(self, member: ProducerMember) -> None:
        """It counts from the next heartbeat on, which is now for the brokers that are known."""
        self._begin()
        self.members.join_producer(member)
        try:
            await self.heart.beat()
        except BaseException:  # cancelled, for one
            self.members.leave_producer(member)
            raise

    async def join_consumer(self, member: ConsumerMember) -> None:
        """It counts from the next heartbeat on, which is now for the brokers that are known."""
        self._begin()
        self.members.join_consumer(member)
        try:
            await self.heart.beat()
        except BaseException:  # cancelled, for one
            self.members.leave_consumer(member)
            raise

    # Who leaves counts no more before brokers are told: no heartbeat may then bring it back. In a
    # closed session, or the copy of one in a forked child, there is nobody to tell.

    async def leave_producer(self, member: ProducerMember) -> None:
        """It counts no more, and brokers are told."""
        addresses = self.heart.addresses()
        self.members.leave_producer(member)
        if not self.closed_why:
            await self.heart.leave(addresses, producer=member.group)

    async def leave_consumer(self, member: ConsumerMember) -> None:
        """It counts no more, and brokers are told."""
        addresses = self.heart.addresses()  # slaves too, while it is still a consumer
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
        """The response of a broker that grants what is asked; Refused, with its reason, if not."""
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
        """Its address; NoRoute if it is not known."""
        address = self.routes.address_of(broker_name)
        if address is None:
            raise NoRoute(f"the master of broker {broker_name} is not known: is it down?")
        return self.vip(address)

    def vip(self, address: str) -> str:
        """The second port of a broker, where it takes no pulls, if that is wished."""
        return second_port_of(address) if self.config.vip_channel_enabled else address

    async def close(self) -> None:
        """End all that goes on. Members leave before.

        Who is cancelled meanwhile still waits for the end, which is soon, and does not stop it.
        """
        if not self.closed_why:
            self.closed_why = "it is closed"
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
        """We are the copy of a session in a child process: the connections are the parent's."""
        self.closed_why = "it was made before a fork: make another in the child process"
        self._closing = None  # the parent's
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
    """What unique keys begin with: as in Java, a client may call itself what is no address."""
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
