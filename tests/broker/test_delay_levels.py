"""Delay levels: their text, and how a message is put aside."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.broker.delivery.delay_levels import DelayLevels
from cometmq.errors import BadHeader, BadSetting
from cometmq.protocol.names import SCHEDULE_TOPIC
from cometmq.protocol.records.properties import decode_properties, encode_properties
from cometmq.store.log.new_message import NewMessage

DEFAULT = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
PREPARED, COMMITTED, ROLLED_BACK = 4, 8, 12


def message(sys_flag=0, **properties):
    text = encode_properties(properties)
    return NewMessage(topic="T", queue_id=3, body=b"x", properties_text=text, sys_flag=sys_flag)


def test_the_eighteen_levels():
    levels = DelayLevels(DEFAULT)
    assert levels.count == 18
    assert [levels.delay_ms(level) for level in (1, 4, 5, 14, 17, 18)] == [
        1_000, 30_000, 60_000, 600_000, 3_600_000, 7_200_000,
    ]  # fmt: skip
    assert DelayLevels(" 2d\t7s ").delay_ms(1) == 172_800_000


@pytest.mark.parametrize("text", ["", "  ", "1", "s", "1x", "-1s", "1.5s", "1s,2s", "1 s", "²s"])
def test_a_text_that_is_no_levels_is_refused_with_an_example(text):
    with pytest.raises(BadSetting, match="messageDelayLevel") as told:
        DelayLevels(text)
    assert "example" in str(told.value)


@given(st.integers(1, 10**6), st.integers(0, 10**9))
def test_a_level_past_the_last_is_the_last(level, stored_ms):
    levels = DelayLevels(DEFAULT)
    diverted = levels.divert(message(DELAY=str(level)))
    kept = min(level, 18)
    assert (diverted.topic, diverted.queue_id) == (SCHEDULE_TOPIC, kept - 1)
    properties = decode_properties(diverted.properties_text)
    assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("T", "3")
    assert properties["DELAY"] == str(kept)
    code = levels.unit_code(SCHEDULE_TOPIC, diverted.properties_text, 7, stored_ms)
    assert code == stored_ms + levels.delay_ms(kept)


@pytest.mark.parametrize("value", ["0", "-1", ""])
def test_what_is_no_level_is_not_delayed(value):
    plain = message(DELAY=value)
    assert DelayLevels(DEFAULT).divert(plain) is plain


@pytest.mark.parametrize("value", ["x", "1.5", "²", "2147483648", "9" * 5_000])
def test_a_delay_that_is_no_number_is_refused(value):
    with pytest.raises(BadHeader, match="DELAY is not a 32-bit number") as refusal:
        DelayLevels(DEFAULT).divert(message(DELAY=value))
    assert len(str(refusal.value)) < 100


@pytest.mark.parametrize(("sys_flag", "is_delayed"), [(PREPARED, False), (ROLLED_BACK, False),
                                                      (COMMITTED, True), (0, True)])  # fmt: skip
def test_an_undecided_message_is_not_delayed(sys_flag, is_delayed):
    diverted = DelayLevels(DEFAULT).divert(message(sys_flag, DELAY="2"))
    assert (diverted.topic == SCHEDULE_TOPIC) is is_delayed


def test_units_of_other_topics_hold_the_tag():
    levels = DelayLevels(DEFAULT)
    assert levels.unit_code("T", encode_properties({"DELAY": "3"}), 42, 1_000) == 42
    assert levels.unit_code(SCHEDULE_TOPIC, "", 42, 1_000) == 42


def test_the_highest_number_is_the_last_level():
    assert DelayLevels("1s 5s").divert(message(DELAY="2147483647")).queue_id == 1
