"""Times as people give them."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from cometmq.client.durations import duration_ms, moment_ms
from cometmq.errors import BadSetting


def test_durations():
    assert duration_ms(1500) == duration_ms(timedelta(seconds=1.5)) == 1500
    assert duration_ms(0) == duration_ms(timedelta(microseconds=999)) == 0
    for given in (-1, 1.5, True, "1", None, timedelta(seconds=-1)):
        with pytest.raises(BadSetting, match="no time to wait"):
            duration_ms(given)


def test_moments():
    when = datetime(2026, 11, 16, 12, 30, tzinfo=UTC)
    assert moment_ms(when) == moment_ms(when.astimezone(timezone(timedelta(hours=8))))
    assert moment_ms(when) == 1_794_832_200_000
    assert moment_ms(5) == 5
    assert moment_ms(when.astimezone().replace(tzinfo=None)) == moment_ms(when)
    for given in (1.5, True, "now", None):
        with pytest.raises(BadSetting, match="no moment"):
            moment_ms(given)
