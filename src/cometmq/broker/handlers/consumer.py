"""Connections of clients, and requests that the broker forwards to consumers."""

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass

from cometmq.broker.tables.clients import Client, Clients
from cometmq.broker.tables.identity import Identity
from cometmq.errors import PeerError, Refused, TimedOut, WorldError
from cometmq.protocol.bodies import consumer as bodies
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers import consumer as headers
from cometmq.protocol.headers.base import Header, NoHeader
from cometmq.protocol.headers.client import ConsumerGroupHeader, ProducerGroupHeader
from cometmq.protocol.java.fastjson import dumps, loads
from cometmq.protocol.records.message import pack_record
from cometmq.protocol.records.message_id import OffsetId
from cometmq.remoting.dispatch import Call, Reply
from cometmq.store.message_store import MessageStore

log = logging.getLogger(__name__)

_PATIENCE_MS = 10_000  # with a consumer that is asked something


@dataclass(frozen=True, slots=True)
class ConsumerHandlers:
    """Connections of clients, and the state of running consumers."""

    clients: Clients
    store: MessageStore
    identity: Identity

    def connections(self, call: Call, ask: ConsumerGroupHeader) -> Reply:
        group = self.clients.consumers.get(ask.consumer_group)
        if group is None:
            raise _offline(f"the consumer group[{ask.consumer_group}] not online")
        body = bodies.ConsumerConnection(
            connection_set=_connections(group.members.values()),
            consume_from_where=group.consume_from,
            consume_type=group.consume_type,
            differing_subscriptions=group.differences or None,
            message_model=group.message_model,
            subscription_table=group.subscriptions,
        )
        return Reply(body=dumps(body))

    def producer_connections(self, call: Call, ask: ProducerGroupHeader) -> Reply:
        members = self.clients.producers.get(ask.producer_group)
        if members is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"the producer group[{ask.producer_group}] not exist"
            )
        found = _connections(members.values())
        return Reply(body=dumps(bodies.ProducerConnection(connection_set=found)))

    def producers(self, call: Call, ask: NoHeader) -> Reply:
        table = {
            group: [
                bodies.ProducerInfo(
                    client_id=client.client_id,
                    language=client.language,
                    last_update_timestamp=client.heard_wall_ms,
                    remote_ip=str(client.link.peer),
                    version=client.version,
                )
                for client in members.values()
            ]
            for group, members in self.clients.producers.items()
        }
        return Reply(body=dumps(bodies.ProducerTable(data=table)))

    async def status(self, call: Call, ask: headers.ConsumerStatusHeader) -> Reply:
        """INVOKE_BROKER_TO_GET_CONSUMER_STATUS: offsets as the members of a group have them."""
        group = self.clients.consumers.get(ask.group)
        if group is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"No Any Consumer online in the consumer group: [{ask.group}]",
            )
        asked = [
            client
            for client in group.members.values()
            if not (ask.client_addr or "").strip() or client.client_id == ask.client_addr
        ]
        answers = await asyncio.gather(*(self._offsets_in(client, ask) for client in asked))
        table = {
            client.client_id: answer.message_queue_table
            for client, answer in zip(asked, answers, strict=True)
            if answer is not None
        }
        return Reply(body=dumps(bodies.ConsumerStatus(consumer_table=table)))

    async def running(self, call: Call, ask: headers.RunningInfoHeader) -> Reply:
        client = self._member(ask.consumer_group, ask.client_id)
        return await self._passed_on(
            client, ask.consumer_group, RequestCode.GET_CONSUMER_RUNNING_INFO, ask
        )

    async def consume(self, call: Call, ask: headers.ConsumeDirectlyHeader) -> Reply:
        """CONSUME_MESSAGE_DIRECTLY: push one message to a member."""
        client = self._member(ask.consumer_group, ask.client_id)
        place = OffsetId.parse(ask.msg_id or "")
        message = self.store.record(place.physical_offset)
        if message is None:
            raise Refused(
                ResponseCode.QUERY_NOT_FOUND,
                f"can not find message by the offset, {place.physical_offset}",
            )
        header = headers.ConsumeDirectlyHeader(
            consumer_group=ask.consumer_group,
            client_id=client.client_id,
            msg_id=ask.msg_id,
            broker_name=self.identity.name,
        )
        return await self._passed_on(
            client,
            ask.consumer_group,
            RequestCode.CONSUME_MESSAGE_DIRECTLY,
            header,
            pack_record(message),
        )

    def _member(self, group: str, client_id: str | None) -> Client:
        client = self.clients.member(group, client_id or "")
        if client is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"The Consumer <{group}> <{client_id}> not online"
            )
        return client

    async def _passed_on(
        self, client: Client, group: str, code: int, header: Header, body: bytes = b""
    ) -> Reply:
        """The unchanged response of a member."""
        who = f"consumer <{group}> <{client.client_id}>"
        try:
            answer = await client.link.invoke(code, header, body, timeout_ms=_PATIENCE_MS)
        except TimedOut as error:
            raise Refused(ResponseCode.CONSUME_MSG_TIMEOUT, f"{who} Timeout: {error}") from error
        except (PeerError, WorldError) as error:
            raise _offline(f"{who}: {error}") from error
        return Reply(answer.code, body=answer.body, remark=answer.remark)

    async def _offsets_in(
        self, client: Client, ask: headers.ConsumerStatusHeader
    ) -> bodies.ConsumerStatus | None:
        """The offsets of one member; None, with a log line, if the request failed."""
        code = RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
        try:
            answer = await client.link.invoke(code, ask, timeout_ms=_PATIENCE_MS)
            if answer.code == ResponseCode.SUCCESS:
                return loads(answer.body, bodies.ConsumerStatus)
            log.warning("consumer %s: code %d, %s", client.client_id, answer.code, answer.remark)
        except (PeerError, WorldError) as error:
            log.warning("consumer %s: %s", client.client_id, error)
        return None


def _connections(clients: Iterable[Client]) -> list[bodies.Connection]:
    return [
        bodies.Connection(
            client_addr=str(client.link.peer),
            client_id=client.client_id,
            language=client.language,
            version=client.version,
        )
        for client in clients
    ]


def _offline(reason: str) -> Refused:
    return Refused(ResponseCode.CONSUMER_NOT_ONLINE, reason)
