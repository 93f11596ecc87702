"""Delay levels: their durations, and the diversion of delayed messages to the schedule topic."""

import re

import msgspec

from cometmq.errors import BadHeader, BadSetting
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.names import SCHEDULE_TOPIC
from cometmq.protocol.records.properties import (
    DELAY,
    NAME_VALUE_SEPARATOR,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    has_property,
    number_in,
    take_property,
)
from cometmq.protocol.records.property_view import edit_properties
from cometmq.store.log.new_message import NewMessage

DELAYED = DELAY + NAME_VALUE_SEPARATOR  # a text without it has no delay: a quick test
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_LEVEL = re.compile(r"(\d+)([smhd])")
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}")
_TRANSACTION = int(MessageFlag.TRANSACTION)
_UNDECIDED = (int(MessageFlag.PREPARED), int(MessageFlag.ROLLBACK))


class DelayLevels:
    """Levels count from 1. Level n has queue n - 1 of the schedule topic."""

    def __init__(self, text: str) -> None:
        self._ms = [_parsed(item) for item in text.split()]
        if not self._ms:
            raise BadSetting("messageDelayLevel is empty; for example: 1s 5s 1m")

    @property
    def count(self) -> int:
        return len(self._ms)

    def delay_ms(self, level: int) -> int:
        """The delay of a level."""
        assert 1 <= level <= self.count, "levels count from 1"
        return self._ms[level - 1]

    def divert(self, message: NewMessage) -> NewMessage:
        """A delayed message, changed for the schedule topic; any other message as it is."""
        if not has_property(message.properties_text, DELAY):
            return message
        level = min(asked_level(message.properties_text), self.count)
        if level <= 0 or message.sys_flag & _TRANSACTION in _UNDECIDED:
            return message
        text = edit_properties(
            message.properties_text,
            {DELAY: str(level), REAL_TOPIC: message.topic, REAL_QUEUE_ID: str(message.queue_id)},
        )
        return msgspec.structs.replace(
            message, topic=SCHEDULE_TOPIC, queue_id=level - 1, properties_text=text
        )

    def _level_in(self, properties_text: str) -> int:
        """The level of a stored message, at most the highest one; 0 if it has none."""
        return min(number_in(properties_text, DELAY) or 0, self.count)

    def unit_code(self, topic: str, properties_text: str, tag_code: int, stored_ms: int) -> int:
        """The code of a queue unit: the due time of a delayed message, otherwise the tag code."""
        if topic != SCHEDULE_TOPIC:
            return tag_code
        level = self._level_in(properties_text)
        return stored_ms + self.delay_ms(level) if level > 0 else tag_code


def asked_level(properties_text: str) -> int:
    """The level that a new message requests, 0 if none. Raises BadHeader for a bad number."""
    _, text = take_property(properties_text, DELAY)
    if not text:
        return 0
    if _NUMBER.fullmatch(text) is None or not -(2**31) <= int(text) < 2**31:
        raise BadHeader(f"property {DELAY} is not a 32-bit number: {text[:40]!r}")
    return int(text)


def _parsed(item: str) -> int:
    found = _LEVEL.fullmatch(item)
    if found is None:
        raise BadSetting(
            f"messageDelayLevel: {item!r} is not a duration; for example 10s, 5m, 2h or 1d"
        )
    return int(found[1]) * _UNIT_MS[found[2]]
