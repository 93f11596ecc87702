"""Requests that put a message in the store: send, send v2, batch."""

from collections.abc import Sequence
from dataclasses import dataclass

from cometmq.broker.config import BrokerConfig
from cometmq.broker.delivery.delay_levels import asked_level
from cometmq.broker.delivery.half_message import half_of, is_half
from cometmq.broker.delivery.retry import Retries
from cometmq.broker.handlers.checks import Checks
from cometmq.broker.intake import Intake
from cometmq.broker.sends.admission import SendAdmission
from cometmq.broker.sends.destination import destination
from cometmq.broker.sends.replies import SendReplies
from cometmq.broker.statistics.stats import Statistics
from cometmq.broker.stored_properties import StoredProperties
from cometmq.errors import BadName, Malformed, PeerError, Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.headers.base import is_true
from cometmq.protocol.headers.send import SendHeader
from cometmq.protocol.names import RETRY_PREFIX
from cometmq.protocol.records.batch import unpack_columns
from cometmq.protocol.records.properties import NAME_VALUE_SEPARATOR, TRANSACTION_PREPARED
from cometmq.remoting.dispatch import Call, JointOutcome, Outcome
from cometmq.store.config import StoreConfig
from cometmq.store.log.new_message import NewMessage, NewMessages

_PREPARED = TRANSACTION_PREPARED + NAME_VALUE_SEPARATOR


@dataclass(frozen=True, slots=True)
class SendHandlers:
    """Handles the sends of producers, and retries that consumers send themselves."""

    checks: Checks
    intake: Intake
    retries: Retries
    stats: Statistics
    properties: StoredProperties
    admission: SendAdmission
    replies: SendReplies

    def send(self, call: Call, ask: SendHeader) -> Outcome:
        """SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE: a field says if it is a batch."""
        began_ms = self.admission.begin(call.received_ms)
        try:
            if ask.batch and is_true(ask.batch):
                return self._send_batch(call, ask, began_ms)
            return self._send_one(call, ask, began_ms)
        except (Refused, BadName) as error:
            return self.replies.refused(error)

    def _send_one(self, call: Call, ask: SendHeader, began_ms: int) -> Outcome:
        queue_id, new_topic = destination(self.checks, ask, call.received_ms)
        text, waits = self.properties.of(ask.properties or "")
        message = message_of(call, ask, queue_id, text)
        if ask.topic.startswith(RETRY_PREFIX):
            message = self.retries.limited(message, call.link, ask.max_reconsume_times)
        elif _PREPARED in text and is_half(message):
            message = self._half(message)
        message, stored = self.intake.put_as(message, call.received_ms)
        if new_topic is not None:
            self.checks.topics.keep(new_topic)
        if message.topic is not ask.topic:  # a dead letter, a half message, or a delayed one
            self.checks.topics.ensure(message.topic, 1)
        self.stats.put(message.topic, message.queue_id, 1, stored.size)
        return self.replies.to_one(call.received_ms, began_ms, queue_id, stored, waits)

    def send_jointly(self, calls: Sequence[Call], asks: Sequence[SendHeader]) -> JointOutcome:
        """The same as `send` of each; None, and nothing happened, if one of them is unusual.

        The sends have one connection. Each step is done for all of them before the next: 7 us of 22
        a send (bench/broker.py).
        """
        answers, received_ms = self.replies.answers, calls[0].received_ms
        at_once = answers.are_at_once
        if not at_once and not answers.topics.file.is_saved:
            return None
        try:
            began_ms = self.admission.begin(received_ms)
            for topic, queue_id, batch in {(ask.topic, ask.queue_id, ask.batch) for ask in asks}:
                known = self.checks.open_to_sends(topic, queue_id, received_ms)
                is_unusual = queue_id < 0 or topic.startswith(RETRY_PREFIX) or is_true(batch)
                if known is None or is_unusual:
                    return None
        except PeerError:
            return None
        texts, all_wait = self.properties.of_all([ask.properties or "" for ask in asks])
        if not (all_wait or at_once) or _PREPARED in "".join(texts):
            return None
        messages = _messages(calls, asks, texts)
        stored = self.intake.put_jointly(messages, received_ms)
        if stored is None:
            return None
        self.stats.put_each(messages, stored)
        return self.replies.to_several(received_ms, began_ms, messages.queue_ids, stored)

    def _send_batch(self, call: Call, ask: SendHeader, began_ms: int) -> Outcome:
        queue_id, new_topic = destination(self.checks, ask, call.received_ms)
        messages, waits = self._batch(call, ask, queue_id)
        stored = self.intake.put_batch(messages, call.received_ms)
        if new_topic is not None:
            self.checks.topics.keep(new_topic)
        self.stats.put(ask.topic, queue_id, len(stored), sum(stored.sizes))
        return self.replies.to_batch(call.received_ms, began_ms, queue_id, stored, waits)

    def _batch(self, call: Call, ask: SendHeader, queue_id: int) -> tuple[NewMessages, bool]:
        """The messages, and whether the producer waits until they are safe."""
        size = len(call.command.body)
        size_max = self.checks.settings.now(StoreConfig).max_message_size
        if size > size_max:
            raise Refused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"batch of {size} bytes; the limit, maxMessageSize, is {size_max}",
            )
        if ask.properties and asked_level(ask.properties) > 0:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be delayed")
        flags, bodies, texts = unpack_columns(call.command.body)
        if not bodies:
            raise Malformed("a batch without a message")
        count = len(bodies)
        properties_texts, waits = self.properties.of_batch(ask.properties or "", texts)
        messages = NewMessages(
            topics=[ask.topic] * count,
            queue_ids=[queue_id] * count,
            bodies=bodies,
            properties_texts=properties_texts,
            flags=flags,
            sys_flags=[ask.sys_flag] * count,
            born_ms=[ask.born_timestamp] * count,
            born_hosts=[call.link.peer] * count,
            reconsume_times=[ask.reconsume_times or 0] * count,
            prepared_offsets=[0] * count,
        )
        return messages, waits

    def _half(self, message: NewMessage) -> NewMessage:
        if self.checks.settings.now(BrokerConfig).reject_transaction_message:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self.checks.identity.address}] sending transaction message is "
                "forbidden: rejectTransactionMessage is true",
            )
        return half_of(message)


def message_of(call: Call, ask: SendHeader, queue_id: int, text: str) -> NewMessage:
    """The message of a send, with these properties."""
    return NewMessage(
        topic=ask.topic,
        queue_id=queue_id,
        body=call.command.body,
        properties_text=text,
        flag=ask.flag,
        sys_flag=ask.sys_flag,
        born_ms=ask.born_timestamp,
        born_host=call.link.peer,
        reconsume_times=ask.reconsume_times or 0,
    )


def _messages(
    calls: Sequence[Call], asks: Sequence[SendHeader], texts: Sequence[str]
) -> NewMessages:
    """The same for several sends of one connection."""
    return NewMessages(
        topics=[ask.topic for ask in asks],
        queue_ids=[ask.queue_id for ask in asks],
        bodies=[call.command.body for call in calls],
        properties_texts=texts,
        flags=[ask.flag for ask in asks],
        sys_flags=[ask.sys_flag for ask in asks],
        born_ms=[ask.born_timestamp for ask in asks],
        born_hosts=[calls[0].link.peer] * len(asks),
        reconsume_times=[ask.reconsume_times or 0 for ask in asks],
        prepared_offsets=[0] * len(asks),
    )
