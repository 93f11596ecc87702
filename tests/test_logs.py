"""Log lines: text and JSON, levels of modules, log files."""

import json
import logging
import sys
from datetime import UTC, datetime

import pytest

from cometmq import logs
from cometmq.errors import BadSetting
from cometmq.log_event import LogEvent
from cometmq.logs import TextLines, start_logging


def formatted(message, *arguments, exc_info=None):
    record = logging.LogRecord("l", logging.INFO, "f", 1, message, arguments, exc_info)
    return TextLines().format(record)


def test_control_characters_of_a_peer_are_escaped():
    line = formatted("topic %s", "a\r\nFAKE\x1b[2J\x00\u2028\x85")
    assert line.endswith(r"topic a\r\nFAKE\x1b[2J\x00\u2028\x85")
    assert len(line.splitlines()) == 1


def test_a_traceback_keeps_its_lines_and_escapes_control_characters():
    try:
        raise ValueError("bad\x1b[31m")
    except ValueError:
        text = formatted("failed", exc_info=sys.exc_info())
    assert "\x1b" not in text
    assert all(line.startswith("    ") for line in text.splitlines()[1:])
    assert "ValueError" in text


@pytest.fixture
def root_logger():
    """The root logger; restored after the test."""
    root = logging.getLogger()
    before, level = root.handlers[:], root.level
    yield root
    for handler in set(root.handlers) - set(before):
        handler.close()
    root.handlers[:] = before
    root.setLevel(level)
    for name in ("cometmq.store", "cometmq.remoting", "cometmq.store.recovery.recovery"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def test_modules_have_their_own_levels(root_logger, tmp_path):
    file = tmp_path / "log"
    start_logging("warning,store=debug, remoting=error", file=file)
    for name, level in (("broker", "info"), ("store", "debug"), ("remoting", "warning")):
        getattr(logging.getLogger(f"cometmq.{name}"), level)("from %s", name)
    assert [line.split(": ")[-1] for line in file.read_text().splitlines()] == ["from store"]


def test_a_log_file_is_rotated_and_old_ones_are_deleted(root_logger, tmp_path, monkeypatch):
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


def test_json_lines(root_logger, tmp_path):
    file = tmp_path / "log"
    start_logging(file=file, as_json=True)
    try:
        raise ValueError("bad")
    except ValueError:
        logging.getLogger("cometmq.broker").exception("topic %s", "a\nb")
    (line,) = file.read_text().splitlines()
    event = json.loads(line)
    assert (event["level"], event["logger"]) == ("error", "cometmq.broker")
    assert event["message"] == "topic a\nb"
    assert "ValueError: bad" in event["traceback"]


@pytest.mark.parametrize("levels", ["loud", "info,store", "info,store=", ""])
def test_bad_levels_are_rejected(root_logger, levels):
    with pytest.raises(BadSetting, match="--log-level"):
        start_logging(levels)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ("info,stoer=debug", "unknown module 'stoer'; did you mean store?"),
        ("info,store=debug,store.recvery=debug", "did you mean store.recovery?"),
        ("info,=debug", "unknown module ''; use store"),
        ("info,../store=debug", "unknown module '../store'"),
    ],
)
def test_unknown_modules_are_rejected_and_change_nothing(root_logger, levels, expected):
    before = root_logger.handlers[:]
    with pytest.raises(BadSetting, match="--log-level") as caught:
        start_logging(levels)
    assert expected in str(caught.value)
    assert root_logger.handlers == before


def test_a_nested_module_has_its_own_level(root_logger):
    start_logging("info, store.recovery = debug")
    assert logging.getLogger("cometmq.store.recovery").level == logging.DEBUG


def test_a_log_file_in_a_missing_folder_is_rejected(root_logger, tmp_path):
    with pytest.raises(BadSetting, match="--log-file"):
        start_logging(file=tmp_path / "missing" / "log")


def test_times_are_iso_8601_with_the_offset_from_utc(root_logger, tmp_path):
    for as_json in (False, True):
        file = tmp_path / f"log-{as_json}"
        start_logging(file=file, as_json=as_json)
        logging.getLogger("cometmq.broker").info("now")
        (line,) = file.read_text().splitlines()
        text = json.loads(line)["time"] if as_json else line.split(" ")[0]
        time = datetime.fromisoformat(text)
        assert time.utcoffset() == datetime.now().astimezone().utcoffset()
        assert abs(datetime.now(UTC) - time).total_seconds() < 60


def test_a_text_line_shows_the_fields_of_an_event_after_its_text():
    event = LogEvent("topic created", topic="a b", queues=4, owner="", note='say "x"', peer="h:1")
    line = formatted(event)
    assert line.endswith(r'topic created topic="a b" queues=4 owner="" note="say \"x\"" peer=h:1')


def test_field_values_cannot_forge_a_line_or_a_field():
    line = formatted(LogEvent("topic created", topic="x\nFAKE", group="g peer=1.2.3.4:5"))
    assert line.endswith(r'topic created topic="x\nFAKE" group="g peer=1.2.3.4:5"')


def test_a_json_line_carries_the_fields_of_an_event_separately(root_logger, tmp_path):
    file = tmp_path / "log"
    start_logging(file=file, as_json=True)
    where = tmp_path / "store"
    event = LogEvent("100% recovered", path=where, cut=None, queues=(1, where), is_clean=True)
    logging.getLogger("cometmq.store").warning(event)
    entry = json.loads(file.read_text())
    assert entry["message"] == "100% recovered"
    fields = {"path": str(where), "cut": None, "queues": [1, str(where)], "is_clean": True}
    assert entry["fields"] == fields
