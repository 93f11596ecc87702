"""Retries and dead letters: what happens to a message that a group could not consume.

A retry goes to %RETRY%group, with a longer delay each time. After the group's maximum the message
goes to %DLQ%group, which only people read. All members of a group have the same maximum, also if
they configured different ones: that of the member which joined last, among those that sent a
message back. Apache RocketMQ 4.9.7 uses the maximum of the member that sends the message back, so
the same message may or may not become a dead letter, depending on who consumed it last.
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
from cometmq.protocol.records.property_view import PropertyView, edit_properties
from cometmq.remoting.dispatch import Link
from cometmq.store.log.new_message import NewMessage
from cometmq.store.message_store import MessageStore

_WRITE = int(Perm.WRITE)
_FIRST_LEVEL = 3  # of the first retry; each further retry has the next level
_NO_DELAY = "0"
# The meaning of -1. To Apache's broker it means no retries: the first failure makes a dead letter.
# No client sends it: Java's and ours replace it by 16, or by this number for ordered consumption.
_NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Returned:
    """A message that was sent back, the copy to store for it, and the topic of the copy."""

    message: StoredMessage
    copy: NewMessage
    topic: TopicConfig

    @property
    def origin_topic(self) -> str:
        """The topic from which it was first consumed."""
        _, topic = take_property(self.copy.properties_text, RETRY_TOPIC)
        return topic or self.message.topic


@dataclass(frozen=True, slots=True)
class Retries:
    """Makes retries and dead letters; the caller stores them through the intake."""

    store: MessageStore
    topics: TopicTable
    groups: GroupTable
    clients: Clients

    def limited(self, message: NewMessage, link: Link, said: int | None) -> NewMessage:
        """A message that a consumer sends to %RETRY%group; a dead letter past the limit.

        The caller creates its topic.
        """
        name = message.topic.removeprefix(RETRY_PREFIX)
        if message.reconsume_times < self._limit(self.groups.known(name), link, said):
            return message
        return _in_topic(message, self._dead_letters(name))

    def sent_back(self, link: Link, ask: SendBackHeader) -> Returned | None:
        """The copy that CONSUMER_SEND_MSG_BACK requests; None if the group has no retry queues."""
        group = self.groups.known(ask.group)
        if group.retry_queue_nums <= 0:
            return None
        message = self.store.record(ask.offset)
        if message is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"look message by offset failed, {ask.offset}: there is no message at this offset",
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
        """The retry limit of the group: that of the member which joined last and set one."""
        limit = self.clients.retries_max(group.group_name, link, said)
        if limit is None:
            limit = group.retry_max_times
        return limit if limit >= 0 else _NO_LIMIT

    def _dead_letters(self, group: str) -> TopicConfig:
        return self.topics.own(dlq_topic(group), 1)


def _in_topic(message: NewMessage, dead_letters: TopicConfig) -> NewMessage:
    """The message for the only queue of a group's dead letters, without a delay."""
    text = message.properties_text
    if has_property(text, DELAY):
        text = put_property(text, DELAY, _NO_DELAY)
    return msgspec.structs.replace(
        message, topic=dead_letters.topic_name, queue_id=0, properties_text=text
    )


def _with_origin(message: StoredMessage) -> str:
    """The properties of a retry: WAIT=false, and the first topic and id of the message.

    Apache's broker stores WAIT=false in retries, and consumers see it. The reply still waits for
    the disk.
    """
    properties = PropertyView(message.properties_text)
    changes: dict[str, str | None] = {WAIT: "false"}
    if properties.get(RETRY_TOPIC) is None:
        changes[RETRY_TOPIC] = message.topic
    if not (properties.get(ORIGIN_MESSAGE_ID) or "").strip():
        changes[ORIGIN_MESSAGE_ID] = str(OffsetId(message.store_host, message.physical_offset))
    return edit_properties(message.properties_text, changes)
