"""Sends heartbeats to brokers, which expire clients without heartbeats."""

import asyncio
import logging
from collections.abc import Iterable

from cometmq.client.session.members import Members
from cometmq.client.session.routes import Routes
from cometmq.errors import PeerError, Unreachable, WorldError
from cometmq.protocol.bodies.heartbeat import Heartbeat, ProducerData
from cometmq.protocol.bodies.route import MASTER_ID
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.client import UnregisterClientHeader
from cometmq.protocol.java.fastjson import dumps
from cometmq.remoting.pool import Pool

log = logging.getLogger(__name__)


class Heart:
    """Sends the members of a session to all masters, and to slaves if there are consumers."""

    def __init__(
        self, client_id: str, members: Members, pool: Pool, routes: Routes, timeout_ms: int
    ) -> None:
        self._client_id = client_id
        self._members = members
        self._pool = pool
        self._routes = routes
        self._timeout_ms = timeout_ms
        self._deaf: set[str] = set()  # addresses that did not accept the last heartbeat

    async def beat(self) -> None:
        """Send a heartbeat to each known broker; log only the first of consecutive failures."""
        members = self._members
        if not members.producers and not members.consumers:
            return
        body = dumps(
            Heartbeat(
                client_id=self._client_id,
                producer_data_set=[ProducerData(group_name=each) for each in members.producers],
                consumer_data_set=[each.data() for each in members.consumers.values()],
            )
        )
        addresses = self.addresses()
        self._deaf &= set(addresses)
        await asyncio.gather(*(self._beat_to(address, body) for address in addresses))

    async def leave(
        self, addresses: Iterable[str], *, producer: str | None = None, consumer: str | None = None
    ) -> None:
        """Unregister this client from a producer or consumer group at the given brokers."""
        header = UnregisterClientHeader(
            client_id=self._client_id, producer_group=producer, consumer_group=consumer
        )
        asked = (
            self._pool.invoke(
                address, RequestCode.UNREGISTER_CLIENT, header, timeout_ms=self._timeout_ms
            )
            for address in addresses
        )
        for failure in await asyncio.gather(*asked, return_exceptions=True):
            if isinstance(failure, PeerError | WorldError):
                log.debug("a broker does not know that this client leaves its group: %s", failure)
            elif isinstance(failure, BaseException):
                raise failure

    def addresses(self) -> list[str]:
        """Return the addresses of all brokers that must receive the heartbeats."""
        with_slaves = bool(self._members.consumers)
        return [
            address
            for nodes in self._routes.brokers.values()
            for broker_id, address in nodes.items()
            if with_slaves or broker_id == MASTER_ID
        ]

    async def _beat_to(self, address: str, body: bytes) -> None:
        try:
            response = await self._pool.invoke(
                address, RequestCode.HEART_BEAT, None, body, timeout_ms=self._timeout_ms
            )
        except Unreachable as error:  # the session logs unreachable brokers
            log.debug("no heartbeat to %s: %s", address, error)
            self._deaf.discard(address)
            return
        except (PeerError, WorldError) as error:
            self._note_deaf(address, str(error))
            return
        if response.code == ResponseCode.SUCCESS:
            self._deaf.discard(address)
        else:
            self._note_deaf(address, f"response code {response.code}: {response.remark or ''}")

    def _note_deaf(self, address: str, why: str) -> None:
        if address not in self._deaf:
            self._deaf.add(address)
            log.warning("broker at %s does not accept heartbeats: %s", address, why)
