"""Failed messages are sent back to the broker, which redelivers or dead-letters them."""

import logging
from dataclasses import dataclass

from cometmq.client.config import PushConsumerConfig
from cometmq.client.consumer.shared.outcomes import TO_DEAD_LETTERS
from cometmq.client.message import ReceivedMessage
from cometmq.client.session.connections import failure_level
from cometmq.client.session.session import Session
from cometmq.errors import Malformed, NoRoute, PeerError, WorldError
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.headers.send import SendBackHeader, SendHeaderV2
from cometmq.protocol.names import DEFAULT_TOPIC, dlq_topic, retry_topic
from cometmq.protocol.records import properties as names
from cometmq.protocol.records.properties import encode_properties

log = logging.getLogger(__name__)

RETRIES_UNLESS_SET = 16  # redeliveries before a message becomes a dead letter
TIMES_MAX = 2**31 - 1  # orderly messages are redelivered without a limit, unless one is set
INNER_PRODUCER = "CLIENT_INNER_PRODUCER"  # the producer group of messages sent by consumers
_TIMEOUT_MS = 5_000
_FIRST_LEVEL = 3  # delay level of the first redelivery; each further one has the next level
_USUAL_DELAYS = (  # by delay level, from 1; a broker's messageDelayLevel may differ
    *("1s", "5s", "10s", "30s", "1m", "2m", "3m", "4m", "5m", "6m", "7m", "8m", "9m", "10m"),
    *("20m", "30m", "1h", "2h"),
)
_COMPRESSION = int(MessageFlag.COMPRESSED | MessageFlag.COMPRESSION)
_RETRY_QUEUES = 1


def reconsume_max(config: PushConsumerConfig, *, orderly: bool) -> int:
    """How often a message is redelivered before it becomes a dead letter."""
    if config.max_reconsume_times >= 0:
        return config.max_reconsume_times
    return TIMES_MAX if orderly else RETRIES_UNLESS_SET


@dataclass(frozen=True, slots=True)
class SendBack:
    """Sends failed messages of one group back. The broker counts the redeliveries."""

    session: Session
    group: str
    reconsume_max: int  # redeliveries before a message becomes a dead letter
    unit_mode: bool = False

    async def send(self, message: ReceivedMessage, delay_level: int = 0) -> bool:
        """Return True if a broker accepted it; log and return False if no broker did."""
        if not _is_readable(message):
            return True
        try:
            await self._by_reference(message, delay_level)
        except (PeerError, WorldError) as error:
            level = failure_level(error)
            log.log(level, "cannot send %s back, sending a copy: %s", message, error)
            # Its broker may be down, or may have deleted it: send a copy to any broker.
            if delay_level == TO_DEAD_LETTERS:
                return await self.bury(message)
            times = message.reconsume_times
            return await self._sent(message, times + 1, delay_level or _FIRST_LEVEL + times)
        return True

    async def bury(self, message: ReceivedMessage) -> bool:
        """Make it a dead letter on any broker; return False if no broker accepted it."""
        if not _is_readable(message):
            return True
        return await self._sent(message, max(message.reconsume_times, self.reconsume_max), 0)

    def redelivery(self, message: ReceivedMessage) -> str:
        """When the broker redelivers a message that failed now, for the log."""
        try:
            times = message.reconsume_times
        except Malformed:
            return "skipped, because it is unreadable"
        if times >= self.reconsume_max:
            return f"it failed too often and goes to {dlq_topic(self.group)}"
        level = _FIRST_LEVEL + times
        usual = _USUAL_DELAYS[min(level, len(_USUAL_DELAYS)) - 1]
        return f"redelivered after delay level {level} of the broker, usually {usual}"

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
            log.warning("no broker accepts a copy of %s: %s", message, error)
            return False
        return True

    async def _as_copy(self, message: ReceivedMessage, times: int, delay_level: int) -> None:
        topic = retry_topic(self.group)
        queues = (await self.session.routes.of(topic)).to_write
        if not queues:
            raise NoRoute(f"topic {topic} has no writable queue now")
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
    """Log and return False if the record is malformed: no broker could redeliver it."""
    try:
        return bool(message.record.topic)
    except Malformed as error:
        log.error("%s is skipped, because it is unreadable: %s", message, error)
        return False
