"""Replies of request-reply calls: pushed to the requester, and also stored as messages."""

import logging
from dataclasses import dataclass

from cometmq.broker.config import BrokerConfig
from cometmq.broker.handlers.checks import Checks
from cometmq.broker.handlers.send import message_of
from cometmq.broker.intake import Intake
from cometmq.broker.sends.destination import destination
from cometmq.broker.sends.replies import refused_send
from cometmq.broker.statistics.stats import Statistics
from cometmq.broker.tables.clients import Clients
from cometmq.broker.tables.identity import Identity
from cometmq.errors import BadName, PeerError, Refused, WorldError
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.base import is_true
from cometmq.protocol.headers.send import PushReplyHeader, SendHeader, TracedReplyHeader
from cometmq.protocol.records.message_id import OffsetId
from cometmq.protocol.records.properties import (
    PUSH_REPLY_TIME,
    REPLY_TO_CLIENT,
    put_property,
    take_property,
)
from cometmq.remoting.dispatch import Call, Reply
from cometmq.seams import Clock
from cometmq.store.queue.results import Stored

log = logging.getLogger(__name__)

_PATIENCE_MS = 3_000  # as long as the one who answers waits for us


@dataclass(frozen=True, slots=True)
class ReplyHandlers:
    """Replies of consumers to producers that wait for them."""

    checks: Checks
    clients: Clients
    intake: Intake
    stats: Statistics
    identity: Identity
    clock: Clock

    async def reply(self, call: Call, ask: SendHeader) -> Reply:
        config = self.checks.settings.now(BrokerConfig)
        try:
            queue_id, new_topic = destination(self.checks, ask, call.received_ms)
        except (Refused, BadName) as error:
            return refused_send(error, config)
        failure = await self._pushed(call, ask)
        stored = self._kept(call, ask, queue_id) if config.store_reply_message_enable else None
        if new_topic is not None:
            self.checks.topics.keep(new_topic)
        if stored is not None:
            await self.intake.confirmed(stored)
        header = TracedReplyHeader(
            msg_id=str(OffsetId(self.identity.host, stored.physical_offset)) if stored else "0",
            queue_id=queue_id if stored else 0,
            queue_offset=stored.queue_offset if stored else 0,
            region_id=config.region_id,
            trace_on=config.trace_on,
        )
        code = ResponseCode.SUCCESS if failure is None else ResponseCode.SYSTEM_ERROR
        return Reply(code, header, remark=failure)

    async def _pushed(self, call: Call, ask: SendHeader) -> str | None:
        """Push the reply to the requester. Returns the reason if that failed, else None."""
        properties = ask.properties or ""
        _, client_id = take_property(properties, REPLY_TO_CLIENT)
        if not client_id:
            return f"reply message properties[{REPLY_TO_CLIENT}] is null"
        link = self.clients.link_of_client(client_id)
        if link is None:
            return f"push reply message fail, channel of <{client_id}> not found."
        now_ms = self.clock.wall_ms()
        header = PushReplyHeader(
            producer_group=ask.producer_group,
            topic=ask.topic,
            default_topic=ask.default_topic,
            default_topic_queue_nums=ask.default_topic_queue_nums,
            queue_id=ask.queue_id,
            sys_flag=ask.sys_flag,
            born_timestamp=ask.born_timestamp,
            flag=ask.flag,
            properties=put_property(properties, PUSH_REPLY_TIME, str(now_ms)),
            reconsume_times=ask.reconsume_times,
            unit_mode=is_true(ask.unit_mode),
            born_host=f"/{call.link.peer}",  # as Java writes an address
            store_host=f"/{self.identity.host}",
            store_timestamp=now_ms,
        )
        code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        try:
            answer = await link.invoke(code, header, call.command.body, timeout_ms=_PATIENCE_MS)
        except (PeerError, WorldError) as error:
            return f"push reply message to <{client_id}> fail: {error}"
        if answer.code != ResponseCode.SUCCESS:
            return f"push reply message to <{client_id}> fail: {answer.remark or answer.code}"
        return None

    def _kept(self, call: Call, ask: SendHeader, queue_id: int) -> Stored | None:
        """Store the reply as a message. A failure is only logged: the reply was pushed."""
        message = message_of(call, ask, queue_id, ask.properties or "")
        message.sys_flag = 0
        try:
            stored = self.intake.put(message, self.clock.wall_ms())
        except Refused as refusal:
            log.warning("a reply to %s is not kept: %s", ask.topic, refusal)
            return None
        self.stats.put(ask.topic, queue_id, 1, stored.size)
        return stored
