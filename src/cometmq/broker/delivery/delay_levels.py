"""Delay levels: how long each is, and how a message is put aside until it is due."""

import re

import msgspec

from cometmq.errors import BadHeader, BadSetting
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.names import SCHEDULE_TOPIC
from cometmq.protocol.records.properties import (
    DELAY,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    has_property,
    number_in,
    put_property,
    take_property,
)
from cometmq.store.log.new_message import NewMessage

_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL = re.compile(r"(\d+)([smhd])")
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}")
_TRANSACTION = int(MessageFlag.TRANSACTION)
_UNDECIDED = (int(MessageFlag.PREPARED), int(MessageFlag.ROLLBACK))


class DelayLevels:
    """Levels from 1 on, each with a queue of its own in the schedule topic."""

    def __init__(self, text: str) -> None:
        self._ms = [_parsed(item) for item in text.split()]
        if not self._ms:
            raise BadSetting("messageDelayLevel names no level; for example: 1s 5s 1m")

    @property
    def count(self) -> int:
        """The highest level."""
        return len(self._ms)

    def delay_ms(self, level: int) -> int:
        """How long a level is."""
        return self._ms[level - 1]

    def divert(self, message: NewMessage) -> NewMessage:
        """The message itself; one that is to be delayed goes to the schedule topic instead."""
        if not has_property(message.properties_text, DELAY):
            return message
        level = min(asked_level(message.properties_text), self.count)
        if level <= 0 or message.sys_flag & _TRANSACTION in _UNDECIDED:
            return message
        text = put_property(message.properties_text, DELAY, str(level))
        text = put_property(text, REAL_TOPIC, message.topic)
        text = put_property(text, REAL_QUEUE_ID, str(message.queue_id))
        return msgspec.structs.replace(
            message, topic=SCHEDULE_TOPIC, queue_id=level - 1, properties_text=text
        )

    def _level_in(self, properties_text: str) -> int:
        """What a message asks for, and no more than there is; 0 if nothing."""
        return min(number_in(properties_text, DELAY) or 0, self.count)

    def unit_code(self, topic: str, properties_text: str, tag_code: int, stored_ms: int) -> int:
        """What a queue's unit holds: of a delayed message the time it is due, else its tag code."""
        if topic != SCHEDULE_TOPIC:
            return tag_code
        level = self._level_in(properties_text)
        return stored_ms + self.delay_ms(level) if level > 0 else tag_code


def asked_level(properties_text: str) -> int:
    """What a new message asks for, 0 if nothing; BadHeader if it is no 32-bit number."""
    _, text = take_property(properties_text, DELAY)
    if not text:
        return 0
    if _NUMBER.fullmatch(text) is None or not -(2**31) <= int(text) < 2**31:
        raise BadHeader(f"property {DELAY} is no number: {text[:40]!r}")
    return int(text)


def _parsed(item: str) -> int:
    found = _LEVEL.fullmatch(item)
    if found is None:
        raise BadSetting(f"messageDelayLevel: {item!r} is no time; for example 10s, 5m, 2h or 1d")
    return int(found[1]) * _UNIT_MS[found[2]]
