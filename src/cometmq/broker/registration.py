"""Registers this broker and its topics at the name servers, and reads the ordered topics."""

import asyncio
import logging
from collections.abc import Sequence

import msgspec

from cometmq.background import Background
from cometmq.broker.config import BrokerConfig
from cometmq.broker.tables.identity import Identity
from cometmq.broker.tables.topics import READ_WRITE, TopicTable
from cometmq.errors import Malformed, PeerError, WorldError
from cometmq.protocol.bodies.register import RegisterBroker, encode_register
from cometmq.protocol.bodies.tables import KeyValues, TopicConfigTable
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.headers import namesrv as headers
from cometmq.protocol.headers.base import Header, read_header
from cometmq.protocol.java.fastjson import dumps, loads
from cometmq.protocol.records.message import body_crc
from cometmq.remoting.pool import Pool
from cometmq.settings.live_settings import LiveSettings

log = logging.getLogger(__name__)

_PERIOD_MS = (10_000, 60_000)  # the least and the most
_LEAVE_MS_MAX = 3_000
_SETTLED_MS_MAX = 1_000  # clients that make a topic wait for 3 s


class Registration:
    """Registers at start, periodically, and when topics change; unregisters at the end."""

    def __init__(
        self,
        pool: Pool,
        topics: TopicTable,
        identity: Identity,
        settings: LiveSettings,
        background: Background,
    ) -> None:
        self._pool = pool
        self._topics = topics
        self._identity = identity
        self._settings = settings
        self._background = background
        self._due: set[str] = set()  # name servers that do not know of a change
        self._telling: dict[str, asyncio.Task[None]] = {}  # each by itself: one may be silent
        self._has_left = False

    @property
    def _servers(self) -> list[str]:
        return [each for each in self._settings.now(BrokerConfig).namesrv_addr.split(";") if each]

    async def start(self) -> None:
        """Register now, then periodically."""
        self._topics.on_change(self.soon)
        await self.exchange(forced=True)
        self._background.every(self._period_ms, self.exchange, "registration")

    def soon(self) -> None:
        """Register soon because topics changed. Concurrent changes share one registration."""
        for server in self._servers:
            self._due.add(server)
            if server not in self._telling:
                telling = self._tell_while_due(server)
                self._telling[server] = self._background.start(telling, "registration")

    async def settled(self) -> None:
        """Wait until all responsive name servers know all changes, but not long."""
        if self._telling:
            await asyncio.wait(self._telling.values(), timeout=_SETTLED_MS_MAX / 1000)

    async def register(self, forced: bool = False) -> list[Command | None]:
        """Register at every name server, except those that have this version."""
        if self._has_left:
            return []
        forced = forced or self._settings.now(BrokerConfig).force_register
        return await asyncio.gather(*(self._register_with(each, forced) for each in self._servers))

    async def exchange(self, forced: bool = False) -> None:
        """The same, and learn from them which topics have an order.

        Not whenever they are told of a change: that may be a topic which is about to have one.
        """
        self._take_order(await self.register(forced))

    async def leave(self) -> None:
        """Unregister at every name server."""
        self._has_left = True
        header = self._header()
        await asyncio.gather(
            *(
                self._asked(each, RequestCode.UNREGISTER_BROKER, header, b"", _LEAVE_MS_MAX)
                for each in self._servers
            )
        )

    def _period_ms(self) -> int:
        least, most = _PERIOD_MS
        return max(least, min(most, self._settings.now(BrokerConfig).register_name_server_period))

    async def _tell_while_due(self, server: str) -> None:
        try:
            while server in self._due:
                self._due.remove(server)
                await self._register_with(server, forced=True)
        finally:
            del self._telling[server]

    def _take_order(self, answers: Sequence[Command | None]) -> None:
        """The ordered topics of the first name server that has them."""
        body = next((answer.body for answer in answers if answer and answer.body), b"")
        if not body:  # nobody ever gave a topic an order
            return
        try:
            self._topics.put_in_order(loads(body, KeyValues).table.keys())
        except Malformed as error:
            log.warning("which topics have an order is not known: %s", error)

    async def _register_with(self, server: str, forced: bool) -> Command | None:
        """The response of a name server; None if it failed or was skipped."""
        config = self._settings.now(BrokerConfig)
        patience_ms = config.register_broker_timeout_mills
        if not forced and not await self._is_news(server, patience_ms):
            return None
        if self._has_left:  # while it was asked
            return None
        body = encode_register(
            RegisterBroker(filter_server_list=[], topics=self._served()),
            compressed=config.compressed_register,
        )
        header = headers.RegisterBrokerHeader(
            broker_name=self._identity.name,
            broker_addr=self._identity.address,
            cluster_name=self._identity.cluster,
            ha_server_addr=self._identity.ha_address,
            broker_id=self._identity.id,
            compressed=config.compressed_register,
            body_crc32=body_crc(body),
        )
        return await self._asked(server, RequestCode.REGISTER_BROKER, header, body, patience_ms)

    def _served(self) -> TopicConfigTable:
        """The topics, restricted to the permissions of the broker."""
        table = self._topics.body
        allowed = self._settings.now(BrokerConfig).broker_permission
        if allowed == READ_WRITE:
            return table
        return TopicConfigTable(
            data_version=table.data_version,
            topic_config_table={
                name: msgspec.structs.replace(topic, perm=topic.perm & allowed)
                for name, topic in table.topic_config_table.items()
            },
        )

    async def _is_news(self, server: str, patience_ms: int) -> bool:
        header = self._header()
        version = dumps(self._topics.version)
        reply = await self._asked(
            server, RequestCode.QUERY_DATA_VERSION, header, version, patience_ms
        )
        return reply is None or read_header(reply, headers.DataVersionReplyHeader).changed

    async def _asked(
        self, server: str, code: int, header: Header, body: bytes, patience_ms: int
    ) -> Command | None:
        """The response of one name server; None, with a log line, if the request failed."""
        try:
            reply = await self._pool.invoke(server, code, header, body, timeout_ms=patience_ms)
        except (PeerError, WorldError) as error:
            log.warning("name server %s: %s", server, error)
            return None
        if reply.code != ResponseCode.SUCCESS:
            log.warning("name server %s: code %d, %s", server, reply.code, reply.remark)
            return None
        return reply

    def _header(self) -> headers.BrokerHeader:
        return headers.BrokerHeader(
            broker_name=self._identity.name,
            broker_addr=self._identity.address,
            cluster_name=self._identity.cluster,
            broker_id=self._identity.id,
        )
