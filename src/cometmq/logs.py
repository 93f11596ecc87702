"""Logging of a server process: text or JSON lines, to stderr or to a file that is rotated."""

import json
import logging
import sys
from datetime import datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path

from cometmq.errors import BadSetting
from cometmq.log_event import LogEvent
from cometmq.printable import one_line

_FILE_SIZE_MAX = 64 << 20
_FILES_KEPT = 5
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")
_JSON_TYPES = (str, int, float, bool, type(None))


class TextLines(logging.Formatter):
    """One line per record: time, level, logger, message. A traceback follows, indented.

    Control characters are escaped: text that a peer sent cannot forge a line.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802
        return _iso_time(record)

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802
        return one_line(super().formatMessage(record))

    def formatException(self, exc_info: "logging._SysExcInfoType") -> str:  # noqa: N802
        lines = super().formatException(exc_info).splitlines()
        return "\n".join("    " + one_line(line) for line in lines)


class JsonLines(logging.Formatter):
    """One JSON object per line; the fields of a `LogEvent` are in its `fields`."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": _iso_time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if isinstance(record.msg, LogEvent):
            entry["message"] = record.msg.text
            entry["fields"] = {k: _json_value(v) for k, v in record.msg.fields.items()}
        else:
            entry["message"] = record.getMessage()
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def _iso_time(record: logging.LogRecord) -> str:
    """ISO 8601 in local time, with milliseconds and the offset from UTC."""
    return datetime.fromtimestamp(record.created).astimezone().isoformat(timespec="milliseconds")


def _json_value(value: object) -> object:
    if isinstance(value, list | tuple | set | frozenset):
        return [_json_value(each) for each in value]
    return value if isinstance(value, _JSON_TYPES) else str(value)


def start_logging(levels: str = "info", *, file: Path | None = None, as_json: bool = False) -> None:
    """Log to stderr, or to a file that is rotated at 64 MiB.

    `levels` is a level, optionally followed by levels of single modules:
    `info,store=debug,remoting=warning`.

    Raises BadSetting if a level or a module is unknown, or if the file cannot be opened.
    """
    first, *rest = levels.split(",")
    level, parts = _level(first), dict(map(_part, rest))
    try:
        handler = (
            logging.StreamHandler(sys.stderr)
            if file is None
            else RotatingFileHandler(file, maxBytes=_FILE_SIZE_MAX, backupCount=_FILES_KEPT)
        )
    except OSError as error:
        raise BadSetting(f"--log-file {file}: {error.strerror}") from error
    handler.setFormatter(JsonLines() if as_json else TextLines())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for part, own in parts.items():
        logging.getLogger(f"cometmq.{part}").setLevel(own)


def _part(text: str) -> tuple[str, str]:
    """A module of this package and its level, from `module=level`."""
    name, _, level = (each.strip() for each in text.partition("="))
    home = Path(__file__).parent
    files = (path.relative_to(home).with_suffix("") for path in home.rglob("*.py"))
    known = {".".join(path.parts).removesuffix(".__init__") for path in files}
    if name not in known:
        from difflib import get_close_matches  # only needed for a typo

        near = get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else "; use store, broker, remoting, ..."
        raise BadSetting(f"--log-level: unknown module {name!r}{hint}")
    return name, _level(level)


def _level(text: str) -> str:
    level = text.strip().upper()
    if level not in _LEVELS:
        raise BadSetting(
            f"--log-level: unknown level {text!r}; use {', '.join(_LEVELS).lower()},"
            " optionally with levels of modules: info,store=debug"
        )
    return level
