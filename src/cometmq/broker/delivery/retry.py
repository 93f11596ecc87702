"""What becomes of a message that a group could not consume: it comes again, or is buried.

It comes again by %RETRY%group, later each time; after the group's maximum it goes to %DLQ%group,
where nobody looks for it but people. The maximum is one number for all members of a group, also if
they say different ones: that of the member which joined last, of those that gave something back.
The original goes by what each says, so that the same message is buried or not by who had it last.
"""

import random
from dataclasses import dataclass

import msgspec

from cometmq.broker.delivery.copies import copy_of
from cometmq.broker.tables.clients import Clients
from cometmq.broker.tables.groups import GroupTable
from cometmq.broker.tables.topics import TopicTable
from cometmq.errors import Refused
from cometmq.protocol.bodies.tables import GroupConfig, TopicConfig
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.flags import Perm
from cometmq.protocol.headers.send import SendBackHeader
from cometmq.protocol.names import RETRY_PREFIX, dlq_topic, retry_topic
from cometmq.protocol.records.message import StoredMessage
from cometmq.protocol.records.message_id import OffsetId
from cometmq.protocol.records.properties import (
    DELAY,
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
    WAIT,
    has_property,
    put_property,
    take_property,
)
from cometmq.remoting.dispatch import Link
from cometmq.store.log.new_message import NewMessage
from cometmq.store.message_store import MessageStore

_WRITE = int(Perm.WRITE)
_FIRST_LEVEL = 3  # of the first retry; each further one has the next
_AT_ONCE = "0"
# What -1 means. There it means never: a message whose first try failed is buried at once. Neither
# the original's client nor ours sends it: they make 16 of it first, or this, where order matters.
_NO_LIMIT = 2**31 - 1


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
    clients: Clients

    def limited(self, message: NewMessage, link: Link, said: int | None) -> NewMessage:
        """A message that a consumer sends to %RETRY%group itself; a dead letter past the limit.

        Its topic is made by whoever stores it.
        """
        name = message.topic.removeprefix(RETRY_PREFIX)
        if message.reconsume_times < self._limit(self.groups.known(name), link, said):
            return message
        return _in_topic(message, self._dead_letters(name))

    def sent_back(self, link: Link, ask: SendBackHeader) -> Returned | None:
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
        limit = self._limit(group, link, ask.max_reconsume_times)
        if message.reconsume_times >= limit or ask.delay_level < 0:
            dead = self._dead_letters(ask.group)
            return Returned(message, _in_topic(copy, dead), dead)
        level = ask.delay_level or _FIRST_LEVEL + message.reconsume_times
        copy.properties_text = put_property(copy.properties_text, DELAY, str(level))
        return Returned(message, copy, retry)

    def _limit(self, group: GroupConfig, link: Link, said: int | None) -> int:
        """How often the group may fail: who started last decides, of those that say."""
        limit = self.clients.retries_max(group.group_name, link, said)
        if limit is None:
            limit = group.retry_max_times
        return limit if limit >= 0 else _NO_LIMIT

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


def _with_origin(message: StoredMessage) -> str:
    """Its properties as a retry has them: WAIT=false, and its first topic and id.

    WAIT=false: Apache's broker stores the retry so, and consumers see it. The answer waits here
    for the disk all the same.
    """
    text = put_property(message.properties_text, WAIT, "false")
    if take_property(text, RETRY_TOPIC)[1] is None:
        text = put_property(text, RETRY_TOPIC, message.topic)
    if not (take_property(text, ORIGIN_MESSAGE_ID)[1] or "").strip():
        own_id = str(OffsetId(message.store_host, message.physical_offset))
        text = put_property(text, ORIGIN_MESSAGE_ID, own_id)
    return text
