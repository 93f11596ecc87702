"""Requests that put a message in the store: send, send v2, batch."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from cometmq.broker.config import BrokerConfig
from cometmq.broker.delivery.delay_levels import asked_level
from cometmq.broker.delivery.half_message import half_of, is_half
from cometmq.broker.delivery.retry import Retries
from cometmq.broker.durable_replies import SafeAnswers
from cometmq.broker.handlers.checks import Checks, with_queue
from cometmq.broker.intake import Intake
from cometmq.broker.page_cache import PageCache
from cometmq.broker.statistics.stats import Statistics
from cometmq.broker.stored_properties import StoredProperties
from cometmq.broker.tables.identity import Identity
from cometmq.broker.tables.topics import TopicTable
from cometmq.errors import BadName, Malformed, PeerError, Refused
from cometmq.protocol.bodies.tables import TopicConfig
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.flags import TopicFlag
from cometmq.protocol.headers.base import is_true
from cometmq.protocol.headers.send import (
    RefusedSendHeader,
    SendHeader,
    TracedReplyHeader,
    send_replies,
)
from cometmq.protocol.names import RETRY_PREFIX
from cometmq.protocol.records.batch import unpack_columns
from cometmq.protocol.records.message_id import joined_offset_ids
from cometmq.protocol.records.properties import NAME_VALUE_SEPARATOR, TRANSACTION_PREPARED
from cometmq.refusal_log import RefusalLog
from cometmq.remoting.dispatch import Call, Jointly, JointOutcome, Outcome, Replies, Reply
from cometmq.remoting.promise import Promise
from cometmq.seams import Clock
from cometmq.settings.live_settings import LiveSettings
from cometmq.store.config import StoreConfig
from cometmq.store.log.new_message import NewMessage, NewMessages
from cometmq.store.queue.results import Stored, StoredMessages

_SUCCESS = ResponseCode.SUCCESS.value
_PAGE_CACHE = "osPageCacheBusyTimeOutMills"
_PREPARED = TRANSACTION_PREPARED + NAME_VALUE_SEPARATOR


@dataclass(frozen=True, slots=True)
class SendHandlers:
    """Sends of producers."""

    checks: Checks
    topics: TopicTable
    intake: Intake
    answers: SafeAnswers
    retries: Retries
    stats: Statistics
    settings: LiveSettings
    identity: Identity
    clock: Clock
    properties: StoredProperties
    ids: str  # the format of message ids here
    page_cache: PageCache
    refusals: RefusalLog

    def send(self, call: Call, ask: SendHeader) -> Outcome:
        """SEND_MESSAGE, SEND_MESSAGE_V2 and SEND_BATCH_MESSAGE: a field says if it is a batch."""
        began_ms = self._in_time(call)
        try:
            if ask.batch and is_true(ask.batch):
                return self._send_batch(call, ask, began_ms)
            return self._send_one(call, ask, began_ms)
        except (Refused, BadName) as error:  # a producer gets what its trace needs all the same
            return refused_send(error, self.settings.now(BrokerConfig))

    def _send_one(self, call: Call, ask: SendHeader, began_ms: int) -> Outcome:
        known = self.checks.open_to_sends(ask.topic, ask.queue_id, call.received_ms)
        topic = known or new_topic(self.checks, ask)
        queue_id = ask.queue_id if ask.queue_id >= 0 else any_queue(topic)
        text, waits = self.properties.of(ask.properties or "")
        message = message_of(call, ask, queue_id, text)
        if ask.topic.startswith(RETRY_PREFIX):
            message = self.retries.limited(message, call.link, ask.max_reconsume_times)
        elif _PREPARED in text and is_half(message):
            message = self._half(message)
        message, stored = self.intake.put_as(message, call.received_ms)
        if known is None:
            self.topics.keep(topic)
        if message.topic is not ask.topic:  # a dead letter, a half message, or a delayed one
            self.topics.ensure(message.topic, 1)
        self.stats.put(message.topic, message.queue_id, 1, stored.size)
        ids = self.ids % stored.physical_offset
        return self._answer(call, began_ms, ids, queue_id, stored, stored, waits)

    def send_jointly(self, calls: Sequence[Call], asks: Sequence[SendHeader]) -> JointOutcome:
        """As `send` of each, which share their connection; what is unusual is left to that.

        Each step is taken for all of them before the next: 7 us of 22 a send (bench/broker.py).
        """
        at_once, received_ms = self.answers.are_at_once, calls[0].received_ms
        if not at_once and not self.topics.file.is_saved:
            return None
        try:
            began_ms = self._in_time(calls[0])
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
        return self._answer_jointly(received_ms, began_ms, messages, stored, at_once)

    def _send_batch(self, call: Call, ask: SendHeader, began_ms: int) -> Outcome:
        known = self.checks.open_to_sends(ask.topic, ask.queue_id, call.received_ms)
        topic = known or new_topic(self.checks, ask)
        queue_id = ask.queue_id if ask.queue_id >= 0 else any_queue(topic)
        messages, waits = self._batch(call, ask, queue_id)
        stored = self.intake.put_batch(messages, call.received_ms)
        if known is None:
            self.topics.keep(topic)
        self.stats.put(ask.topic, queue_id, len(stored), sum(stored.sizes))
        ids = joined_offset_ids(self.ids, stored.physical_offsets)
        return self._answer(call, began_ms, ids, queue_id, stored[0], stored[-1], waits)

    def _batch(self, call: Call, ask: SendHeader, queue_id: int) -> tuple[NewMessages, bool]:
        """The messages, and whether the producer waits until they are safe."""
        size, size_max = len(call.command.body), self.settings.now(StoreConfig).max_message_size
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

    def _in_time(self, call: Call) -> int:
        """What time it is. What waited too long is refused: its producer has given it up."""
        config = self.settings.now(BrokerConfig)
        now_ms = self.clock.wall_ms()
        waited_ms = now_ms - call.received_ms
        limit_ms, cache = config.wait_time_mills_in_send_queue, self.page_cache
        if (waited_ms > limit_ms or cache.is_busy(now_ms)) and config.broker_fast_failure_enable:
            busy = f"broker busy, start flow control for a while, period in queue: {waited_ms}ms"
            if waited_ms > limit_ms:
                limit = f"the limit is waitTimeMillsInSendQueue={limit_ms}"
                raise self._busy(f"[TIMEOUT_CLEAN_QUEUE]{busy}, {limit}")
            limit = f"the limit is {_PAGE_CACHE}={config.os_page_cache_busy_time_out_mills}"
            took = f"the last message took {cache.took_ms}ms to be written"
            raise self._busy(f"[PCBUSY_CLEAN_QUEUE]{busy}, {took}, {limit}")
        return now_ms

    def _busy(self, reason: str) -> Refused:
        self.refusals.refused(reason)
        return Refused(ResponseCode.SYSTEM_BUSY, reason)

    def _half(self, message: NewMessage) -> NewMessage:
        if self.settings.now(BrokerConfig).reject_transaction_message:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self.identity.address}] sending transaction message is forbidden: "
                "rejectTransactionMessage is true",
            )
        return half_of(message)

    def _answer(
        self,
        call: Call,
        began_ms: int,
        ids: str,
        queue_id: int,
        first: Stored,
        last: Stored,
        waits: bool,
    ) -> Outcome:
        config, now_ms = self.settings.now(BrokerConfig), self.clock.wall_ms()
        self.page_cache.wrote(began_ms, now_ms, config.os_page_cache_busy_time_out_mills)
        header = TracedReplyHeader(
            msg_id=ids,
            queue_id=queue_id,
            queue_offset=first.queue_offset,
            region_id=config.region_id,
            trace_on=config.trace_on,
        )
        if not waits or self.answers.are_at_once:
            self.stats.put_took(now_ms - call.received_ms)
            return Reply(_SUCCESS, header)
        if not self.topics.file.is_saved:
            return self._later(call, last, header)
        promise: Promise[Reply] = Promise()
        self.intake.confirm(last, partial(self._keep, promise, call, header))
        return promise

    def _answer_jointly(
        self,
        received_ms: int,
        began_ms: int,
        messages: NewMessages,
        stored: StoredMessages,
        at_once: bool,
    ) -> JointOutcome:
        config, now_ms = self.settings.now(BrokerConfig), self.clock.wall_ms()
        self.page_cache.wrote(began_ms, now_ms, config.os_page_cache_busy_time_out_mills)
        fields = send_replies(
            self.ids,
            config.region_id,
            config.trace_on,
            stored.physical_offsets,
            messages.queue_ids,
            stored.queue_offsets,
        )
        if at_once:
            self.stats.put_took(now_ms - received_ms, len(fields))
            return Replies(_SUCCESS, fields)
        promise: Promise[Jointly] = Promise()
        self.intake.confirm(stored[-1], partial(self._keep_all, promise, received_ms, fields))
        return promise

    async def _later(self, call: Call, last: Stored, header: TracedReplyHeader) -> Reply:
        """Once its topic, which was just made, is safe too."""
        code = await self.answers.code(last)
        self._took(call.received_ms)
        return Reply(code, header)

    def _keep(
        self,
        promise: Promise[Reply],
        call: Call,
        header: TracedReplyHeader,
        code: int,
        remark: str | None,
    ) -> None:
        self._took(call.received_ms)
        promise.keep(Reply(code, header if remark is None else None, remark=remark))

    def _keep_all(
        self,
        promise: Promise[Jointly],
        received_ms: int,
        fields: list[bytes],
        code: int,
        remark: str | None,
    ) -> None:
        self._took(received_ms, len(fields))
        if remark is None:
            promise.keep(Replies(code, fields))
        else:
            promise.keep([Reply(code, remark=remark)] * len(fields))

    def _took(self, received_ms: int, count: int = 1) -> None:
        """From their arrival until they are as safe as was promised."""
        self.stats.put_took(self.clock.wall_ms() - received_ms, count)


def message_of(call: Call, ask: SendHeader, queue_id: int, text: str) -> NewMessage:
    """What a send asks to be stored, under these properties."""
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
    """By columns: several of one connection."""
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


def new_topic(checks: Checks, ask: SendHeader) -> TopicConfig:
    """A topic that is not there, as it will be made once the message is stored."""
    if ask.topic.startswith(RETRY_PREFIX):
        topic = TopicConfig(topic_name=ask.topic, read_queue_nums=1, write_queue_nums=1)
        flag = TopicFlag.UNIT_SUB
    else:
        topic = checks.topics.like(
            ask.default_topic, ask.topic, ask.default_topic_queue_nums
        ) or checks.known_topic(ask.topic)
        flag = TopicFlag.UNIT
    if is_true(ask.unit_mode):
        topic = msgspec.structs.replace(topic, topic_sys_flag=int(flag))
    return with_queue(topic, max(ask.queue_id, 0))


def refused_send(error: PeerError, config: BrokerConfig) -> Reply:
    """The answer to a send that was refused."""
    header = RefusedSendHeader(region_id=config.region_id, trace_on=config.trace_on)
    code = error.code if isinstance(error, Refused) else ResponseCode.SYSTEM_ERROR.value
    return Reply(code, header, remark=str(error))


def any_queue(topic: TopicConfig) -> int:
    """One of its queues by chance, as producers ask for with a number below 0."""
    return random.randrange(max(topic.write_queue_nums, 1))  # noqa: S311 - spreads load
