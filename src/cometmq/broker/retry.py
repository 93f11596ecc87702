"""What becomes of a message that a group could not consume: it comes again, or is buried.

It comes again by %RETRY%group, later each time; after the group's maximum it goes to %DLQ%group,
where nobody looks for it but people.
"""

import random
from dataclasses import dataclass

import msgspec

from cometmq.broker.copies import copy_of
from cometmq.broker.groups import GroupTable
from cometmq.broker.topics import TopicTable
from cometmq.errors import Refused
from cometmq.protocol.bodies.tables import GroupConfig, TopicConfig
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.flags import Perm
from cometmq.protocol.headers.send import SendBackHeader
from cometmq.protocol.message import StoredMessage
from cometmq.protocol.message_id import OffsetId
from cometmq.protocol.names import RETRY_PREFIX, dlq_topic, retry_topic
from cometmq.protocol.properties import (
    DELAY,
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
    has_property,
    put_property,
    take_property,
)
from cometmq.store.message_store import MessageStore
from cometmq.store.new_message import NewMessage

_WRITE = int(Perm.WRITE)
_FIRST_LEVEL = 3  # of the first retry; each further one has the next
_AT_ONCE = "0"
_NO_LIMIT = 2**31 - 1  # what -1 means


@dataclass(frozen=True, slots=True)
class Returned:
    """A message that was sent back: which it was, what is stored in its place, and where."""

    message: StoredMessage
    copy: NewMessage
    topic: TopicConfig

    @property
    def origin_topic(self) -> str:
        """Where its first consumer found it."""
        _, topic = take_property(self.copy.properties_text, RETRY_TOPIC)
        return topic or self.message.topic


@dataclass(frozen=True, slots=True)
class Retries:
    """Retries and dead letters of all groups."""

    store: MessageStore
    topics: TopicTable
    groups: GroupTable

    def limited(self, message: NewMessage, max_reconsume_times: int | None) -> NewMessage:
        """A message that a consumer sends to %RETRY%group itself; a dead letter past the limit.

        Its topic is made by whoever stores it.
        """
        name = message.topic.removeprefix(RETRY_PREFIX)
        if message.reconsume_times < _limit(self.groups.known(name), max_reconsume_times):
            return message
        return _in_topic(message, self._dead_letters(name))

    def sent_back(self, ask: SendBackHeader) -> Returned | None:
        """What CONSUMER_SEND_MSG_BACK asks for; None if the group wants no retries at all."""
        group = self.groups.known(ask.group)
        if group.retry_queue_nums <= 0:
            return None
        message = self.store.record(ask.offset)
        if message is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"look message by offset failed, {ask.offset}: no message stands there any more",
            )
        retry = self.topics.own(retry_topic(ask.group), group.retry_queue_nums, unit=ask.unit_mode)
        if not retry.perm & _WRITE:
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"the topic[{retry.topic_name}] sending message is forbidden",
            )
        queue_id = random.randrange(max(retry.read_queue_nums, 1))  # noqa: S311 - spreads load
        copy = copy_of(message, retry.topic_name, queue_id)
        copy.properties_text = _with_origin(message)
        copy.reconsume_times += 1
        limit = _limit(group, ask.max_reconsume_times)
        if message.reconsume_times >= limit or ask.delay_level < 0:
            dead = self._dead_letters(ask.group)
            return Returned(message, _in_topic(copy, dead), dead)
        level = ask.delay_level or _FIRST_LEVEL + message.reconsume_times
        copy.properties_text = put_property(copy.properties_text, DELAY, str(level))
        return Returned(message, copy, retry)

    def _dead_letters(self, group: str) -> TopicConfig:
        return self.topics.own(dlq_topic(group), 1)


def _in_topic(message: NewMessage, dead_letters: TopicConfig) -> NewMessage:
    """In the only queue of a group's dead letters, without a delay."""
    text = message.properties_text
    if has_property(text, DELAY):
        text = put_property(text, DELAY, _AT_ONCE)
    return msgspec.structs.replace(
        message, topic=dead_letters.topic_name, queue_id=0, properties_text=text
    )


def _limit(group: GroupConfig, asked: int | None) -> int:
    """How often the group may fail: who started last decides, if it says."""
    limit = group.retry_max_times if asked is None else asked
    return limit if limit >= 0 else _NO_LIMIT


def _with_origin(message: StoredMessage) -> str:
    """Its properties with the topic and id that it had before its first retry."""
    text = message.properties_text
    if take_property(text, RETRY_TOPIC)[1] is None:
        text = put_property(text, RETRY_TOPIC, message.topic)
    if not (take_property(text, ORIGIN_MESSAGE_ID)[1] or "").strip():
        own_id = str(OffsetId(message.store_host, message.physical_offset))
        text = put_property(text, ORIGIN_MESSAGE_ID, own_id)
    return text
