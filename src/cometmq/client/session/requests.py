"""The seven requests that a broker sends to a client, and their route table."""

from dataclasses import dataclass

from cometmq.client.session.members import ConsumerMember, Members
from cometmq.errors import Refused
from cometmq.protocol.bodies.consumer import ConsumerStatus, ResetOffsets
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.client import ConsumerGroupHeader
from cometmq.protocol.headers.consumer import (
    ConsumeDirectlyHeader,
    ConsumerStatusHeader,
    ResetOffsetHeader,
    RunningInfoHeader,
)
from cometmq.protocol.headers.send import PushReplyHeader
from cometmq.protocol.headers.transaction import CheckTransactionHeader
from cometmq.protocol.java.fastjson import dumps, loads
from cometmq.protocol.records.message import unpack_record
from cometmq.protocol.records.properties import PRODUCER_GROUP
from cometmq.remoting.access import OPEN
from cometmq.remoting.dispatch import Call, Reply, Route, Routes

_LANE = "client"
DONE = Reply()


@dataclass(frozen=True, slots=True)
class Requests:
    """Handles requests from brokers to the producers and consumers of a session."""

    members: Members

    def check_transaction(self, call: Call, ask: CheckTransactionHeader) -> Reply:
        """Handle CHECK_TRANSACTION_STATE; the producer sends the state in a separate request."""
        half = unpack_record(call.command.body)
        group = half.properties.get(PRODUCER_GROUP, "")
        producer = self.members.producers.get(group)
        if producer is None:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"no producer of group {group} is here")
        producer.check_transaction(call.link, ask, half)
        return DONE

    def members_changed(self, call: Call, ask: ConsumerGroupHeader) -> Reply:
        consumer = self.members.consumers.get(ask.consumer_group)
        if consumer is not None:  # None: the consumer has just left the group
            consumer.rebalance_soon()
        return DONE

    def reset_offsets(self, call: Call, ask: ResetOffsetHeader) -> Reply:
        offsets = loads(call.command.body, ResetOffsets).offset_table
        self._consumer(ask.group).reset_offsets(ask.topic, offsets)
        return DONE

    def status(self, call: Call, ask: ConsumerStatusHeader) -> Reply:
        offsets = self._consumer(ask.group).offsets_of(ask.topic)
        return Reply(body=dumps(ConsumerStatus(message_queue_table=dict(offsets))))

    def running_info(self, call: Call, ask: RunningInfoHeader) -> Reply:
        consumer = self._consumer(ask.consumer_group)
        return Reply(body=dumps(consumer.running_info(with_stacks=ask.jstack_enable)))

    async def consume_directly(self, call: Call, ask: ConsumeDirectlyHeader) -> Reply:
        consumer = self._consumer(ask.consumer_group)
        message = unpack_record(call.command.body)
        result = await consumer.consume_directly(message, ask.broker_name or "")
        return Reply(body=dumps(result))

    def take_reply(self, call: Call, ask: PushReplyHeader) -> Reply:
        producers = self.members.producers.values()
        if not any(each.take_reply(ask, call.command.body) for each in producers):
            raise Refused(ResponseCode.SYSTEM_ERROR, "no request waits for this reply")
        return DONE

    def _consumer(self, group: str) -> ConsumerMember:
        consumer = self.members.consumers.get(group)
        if consumer is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"group {group} has no consumer in this client"
            )
        return consumer


def client_routes(members: Members) -> Routes:
    """Return the route table of a client."""
    here = Requests(members)
    return {
        code: Route(handler, header, OPEN, _LANE)
        for code, handler, header in (
            (RequestCode.CHECK_TRANSACTION_STATE, here.check_transaction, CheckTransactionHeader),
            (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, here.members_changed, ConsumerGroupHeader),
            (RequestCode.RESET_CONSUMER_CLIENT_OFFSET, here.reset_offsets, ResetOffsetHeader),
            (RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, here.status, ConsumerStatusHeader),
            (RequestCode.GET_CONSUMER_RUNNING_INFO, here.running_info, RunningInfoHeader),
            (RequestCode.CONSUME_MESSAGE_DIRECTLY, here.consume_directly, ConsumeDirectlyHeader),
            (RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, here.take_reply, PushReplyHeader),
        )
    }
