"""Durations and points in time as the public API accepts them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from cometmq.client.durations import duration_ms, moment_ms, optional_duration_ms, parse_duration_ms
from cometmq.errors import BadSetting


@pytest.mark.parametrize(
    ("given", "milliseconds"),
    [
        (0, 0),
        (3, 3_000),
        (1.5, 1_500),
        (1.001, 1_001),  # 1.001 * 1000 is 1000.9999999999999
        (1.1, 1_100),  # 1.1 * 1000 is 1100.0000000000002
        (timedelta(seconds=1.5), 1_500),
        (timedelta(microseconds=499), 0),
        (timedelta(days=1), 86_400_000),
    ],
)
def test_durations_are_seconds_or_timedelta(given, milliseconds):
    assert duration_ms(given) == milliseconds
    assert optional_duration_ms(given) == milliseconds


def test_an_unset_duration_stays_none():
    assert optional_duration_ms(None) is None


@pytest.mark.parametrize(
    "given",
    [-1, -0.0001, True, "1", b"1", None, timedelta(seconds=-1), timedelta(microseconds=-1),
     float("nan"), float("inf"), 1j, [1]],
)  # fmt: skip
def test_bad_durations_are_rejected_by_name(given):
    with pytest.raises(BadSetting, match=r"^patience is .*: it must be a number of seconds or"):
        duration_ms(given, "patience")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("30", 30), ("500ms", 500), ("30s", 30_000), ("30 sec", 30_000), ("1 minute", 60_000),
        ("10 Minutes", 600_000), ("15min", 900_000), ("1.5h", 5_400_000), (" 2 H ", 7_200_000),
        ("1d", 86_400_000), ("2 days", 172_800_000), ("5 milliseconds", 5),
    ],
)  # fmt: skip
def test_duration_text(text, milliseconds):
    assert parse_duration_ms("--every", text) == milliseconds


@pytest.mark.parametrize("text", ["", "s", "-1s", "5 weeks", "10 minutes ago", "1,5h", "٣s", "1.s"])
def test_bad_duration_text_is_rejected_by_name(text):
    with pytest.raises(BadSetting, match=r"^--every is .*such as 500ms, 30s"):
        parse_duration_ms("--every", text)


def test_moments():
    when = datetime(2026, 11, 16, 12, 30, tzinfo=UTC)
    assert moment_ms(when) == moment_ms(when.astimezone(timezone(timedelta(hours=8))))
    assert moment_ms(when) == 1_794_832_200_000
    assert moment_ms(5) == 5
    assert moment_ms(when.astimezone().replace(tzinfo=None)) == moment_ms(when)
    for given in (1.5, True, "now", None):
        with pytest.raises(BadSetting, match=r"^begin is .*: it must be a datetime or"):
            moment_ms(given, "begin")
