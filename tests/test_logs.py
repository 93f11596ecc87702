"""Log lines."""

import logging
import sys

from cometmq.logs import OneLine


def formatted(message, *arguments, exc_info=None):
    record = logging.LogRecord("l", logging.INFO, "f", 1, message, arguments, exc_info)
    return OneLine().format(record)


def test_control_characters_of_a_peer_are_escaped():
    line = formatted("topic %s", "a\r\nFAKE\x1b[2J\x00\u2028\x85")
    assert line.endswith(r"topic a\r\nFAKE\x1b[2J\x00\u2028\x85")
    assert len(line.splitlines()) == 1


def test_a_traceback_keeps_its_lines_and_escapes_the_rest():
    try:
        raise ValueError("bad\x1b[31m")
    except ValueError:
        text = formatted("failed", exc_info=sys.exc_info())
    assert "\x1b" not in text
    assert all(line.startswith("    ") for line in text.splitlines()[1:])
    assert "ValueError" in text
