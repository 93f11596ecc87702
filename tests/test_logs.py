"""Log lines."""

import json
import logging
import sys

import pytest

from cometmq import logs
from cometmq.errors import BadSetting
from cometmq.logs import OneLine, start_logging


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


@pytest.fixture
def root_logger():
    """As it was, afterwards."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield root
    for handler in set(root.handlers) - set(before):
        handler.close()
    root.handlers[:] = before
    root.setLevel(level)
    for name in ("cometmq.store", "cometmq.remoting", "cometmq.store.recovery.recovery"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_parts_have_levels_of_their_own(root_logger, tmp_path):
    file = tmp_path / "log"
    start_logging("warning,store=debug, remoting=error", file=file)
    for name, level in (("broker", "info"), ("store", "debug"), ("remoting", "warning")):
        getattr(logging.getLogger(f"cometmq.{name}"), level)("from %s", name)
    assert [line.split(": ")[-1] for line in file.read_text().splitlines()] == ["from store"]


def test_a_log_file_is_rotated_and_a_few_are_kept(root_logger, tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "_FILE_SIZE_MAX", 100)
    monkeypatch.setattr(logs, "_FILES_KEPT", 2)
    file = tmp_path / "log"
    start_logging(file=file)
    for number in range(9):
        logging.getLogger("cometmq.broker").info("line %d %s", number, "x" * 80)
    names = ["log", "log.1", "log.2"]
    assert sorted(each.name for each in tmp_path.iterdir()) == names
    kept = [(tmp_path / name).read_text().split("line ")[1][0] for name in names]
    assert kept == ["8", "7", "6"], "the newest first, and none torn"


def test_a_log_for_machines(root_logger, tmp_path):
    file = tmp_path / "log"
    start_logging(file=file, as_json=True)
    try:
        raise ValueError("bad")
    except ValueError:
        logging.getLogger("cometmq.broker").exception("topic %s", "a\nb")
    (line,) = file.read_text().splitlines()
    event = json.loads(line)
    assert (event["level"], event["logger"], event["message"]) == (
        "error", "cometmq.broker", "topic a\nb",
    )  # fmt: skip
    assert "ValueError: bad" in event["traceback"]


@pytest.mark.parametrize("levels", ["loud", "info,store", "info,store=", ""])
def test_what_is_no_level(root_logger, levels):
    with pytest.raises(BadSetting, match="--log-level"):
        start_logging(levels)


@pytest.mark.parametrize(
    ("levels", "told"),
    [
        ("info,stoer=debug", "no part 'stoer'; did you mean store?"),
        ("info,store=debug,store.recvery=debug", "did you mean store.recovery?"),
        ("info,=debug", "no part ''; parts are store"),
        ("info,../store=debug", "no part '../store'"),
    ],
)
def test_a_part_that_there_is_not_is_refused_and_changes_nothing(root_logger, levels, told):
    before = root_logger.handlers[:]
    with pytest.raises(BadSetting, match="--log-level") as caught:
        start_logging(levels)
    assert told in str(caught.value)
    assert root_logger.handlers == before


def test_a_module_of_a_part_has_a_level_of_its_own(root_logger):
    start_logging("info, store.recovery = debug")
    assert logging.getLogger("cometmq.store.recovery").level == logging.DEBUG


def test_a_log_file_that_cannot_be(root_logger, tmp_path):
    with pytest.raises(BadSetting, match="--log-file"):
        start_logging(file=tmp_path / "missing" / "log")
