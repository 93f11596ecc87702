"""A message that was not consumed goes back to the broker, which brings it again or gives it up."""

import logging
from dataclasses import dataclass

from cometmq.client.config import PushConsumerConfig
from cometmq.client.consumer.shared.outcomes import TO_DEAD_LETTERS
from cometmq.client.message import ReceivedMessage
from cometmq.client.session.session import Session
from cometmq.errors import Malformed, NoRoute, PeerError, WorldError
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.headers.send import SendBackHeader, SendHeaderV2
from cometmq.protocol.names import DEFAULT_TOPIC, retry_topic
from cometmq.protocol.records import properties as names
from cometmq.protocol.records.properties import encode_properties

log = logging.getLogger(__name__)

RETRIES_UNLESS_SET = 16  # redeliveries before a message becomes a dead letter
TIMES_MAX = 2**31 - 1  # orderly messages are redelivered without a limit, unless one is set
INNER_PRODUCER = "CLIENT_INNER_PRODUCER"  # the group of what a consumer itself sends
_TIMEOUT_MS = 5_000
_FIRST_LEVEL = 3  # of the first retry: each waits for the next
_COMPRESSION = int(MessageFlag.COMPRESSED | MessageFlag.COMPRESSION)
_RETRY_QUEUES = 1


def reconsume_max(config: PushConsumerConfig, *, orderly: bool) -> int:
    """How often a message is redelivered before it becomes a dead letter."""
    if config.max_reconsume_times >= 0:
        return config.max_reconsume_times
    return TIMES_MAX if orderly else RETRIES_UNLESS_SET


@dataclass(frozen=True, slots=True)
class SendBack:
    """Of one group. The broker counts how often a message was sent back."""

    session: Session
    group: str
    reconsume_max: int  # then it is a dead letter
    unit_mode: bool = False

    async def send(self, message: ReceivedMessage, delay_level: int = 0) -> bool:
        """True when a broker has it; False, logged, if none takes it just now."""
        if not _is_readable(message):
            return True
        try:
            await self._by_reference(message, delay_level)
        except (PeerError, WorldError) as error:
            log.warning("%s is not taken back: %s", message, error)
            # The broker that has it may be down, or have deleted it by now: any will do.
            if delay_level == TO_DEAD_LETTERS:
                return await self.bury(message)
            times = message.reconsume_times
            return await self._sent(message, times + 1, delay_level or _FIRST_LEVEL + times)
        return True

    async def bury(self, message: ReceivedMessage) -> bool:
        """Have any broker make it a dead letter; False if none does."""
        if not _is_readable(message):
            return True
        return await self._sent(message, max(message.reconsume_times, self.reconsume_max), 0)

    async def _by_reference(self, message: ReceivedMessage, delay_level: int) -> None:
        record = message.record
        header = SendBackHeader(
            offset=record.physical_offset,
            group=self.group,
            delay_level=delay_level,
            origin_msg_id=message.message_id,
            origin_topic=message.origin_topic,
            unit_mode=self.unit_mode,
            max_reconsume_times=self.reconsume_max,
        )
        address = self.session.master_of(message.broker_name)
        await self.session.ask(
            address, RequestCode.CONSUMER_SEND_MSG_BACK, header, timeout_ms=_TIMEOUT_MS
        )

    async def _sent(self, message: ReceivedMessage, times: int, delay_level: int) -> bool:
        try:
            await self._as_copy(message, times, delay_level)
        except (PeerError, WorldError) as error:
            log.warning("no broker takes %s back: %s", message, error)
            return False
        return True

    async def _as_copy(self, message: ReceivedMessage, times: int, delay_level: int) -> None:
        topic = retry_topic(self.group)
        queues = (await self.session.routes.of(topic)).to_write
        if not queues:
            raise NoRoute(f"topic {topic} cannot be written to just now")
        queue = self.session.chance.choice(queues)
        record = message.record
        properties = dict(message.properties)
        properties.pop(names.TRANSACTION_PREPARED, None)
        properties.setdefault(names.ORIGIN_MESSAGE_ID, message.message_id)
        properties[names.RETRY_TOPIC] = message.origin_topic
        properties.pop(names.DELAY, None)
        if delay_level:
            properties[names.DELAY] = str(delay_level)
        header = SendHeaderV2(
            producer_group=INNER_PRODUCER,
            topic=topic,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=_RETRY_QUEUES,
            queue_id=queue.queue_id,
            sys_flag=record.sys_flag & _COMPRESSION,
            born_timestamp=self.session.clock.wall_ms(),
            flag=record.flag,
            properties=encode_properties(properties),
            reconsume_times=times,
            unit_mode=self.unit_mode,
            max_reconsume_times=self.reconsume_max,
        )
        await self.session.ask(
            self.session.master_of(queue.broker_name),
            RequestCode.SEND_MESSAGE_V2,
            header,
            record.body,
            timeout_ms=_TIMEOUT_MS,
        )


def _is_readable(message: ReceivedMessage) -> bool:
    """False, logged, for one that nobody can read: it is passed over, as no broker can help."""
    try:
        return bool(message.record.topic)
    except Malformed as error:
        log.error("%s is passed over: %s", message, error)
        return False
