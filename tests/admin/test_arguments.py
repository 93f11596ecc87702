"""What may stand in an argument."""

from argparse import ArgumentTypeError
from datetime import datetime

import pytest

from cometmq.admin.command_line import arguments as of

WHEN = int(datetime(2026, 1, 31, 23, 59, 58).astimezone().timestamp() * 1000)


@pytest.mark.parametrize(("given", "ms"), [
    ("now", of.NOW), ("-1", -1), ("0", 0), ("1794803579249", 1794803579249),
    ("2026-01-31#23:59:58:007", WHEN + 7), ("2026-01-31#23:59:58", WHEN),
    ("2026-01-31 23:59:58", WHEN), ("2026-01-31T23:59:58", WHEN),
    ("2026-01-31 23:59:58,250", WHEN + 250), ("1970-01-01T00:00:01+00:00", 1000),
])  # fmt: skip
def test_times(given, ms):
    assert of.time(given) == ms


@pytest.mark.parametrize(("kind", "given"), [
    (of.time, "2026-13-01#00:00:00:000"), (of.time, ""), (of.time, "-"),
    (of.yes, "1"), (of.yes, ""), (of.whole(1, 3), "4"), (of.whole(), "-1"), (of.whole(), "1.5"),
    (of.permission, "3"), (of.permission, "X"), (of.address, "host"), (of.address, "host:0"),
    (of.address, "host:65536"), (of.address, ":1"), (of.text, "  "), (of.one_of("a"), "b"),
])  # fmt: skip
def test_bad_values_are_rejected(kind, given):
    with pytest.raises(ArgumentTypeError):
        kind(given)


def test_good_values_are_parsed():
    assert of.yes(" TRUE ") is True and of.yes("false") is False
    assert [of.permission(each) for each in ("2", "r", "RW")] == [2, 4, 6]
    assert of.address(" broker:10911 ") == "broker:10911"
    assert of.text(" a b ") == "a b" and of.as_it_is(" a ") == " a "
    assert of.shift("-5") == -5
