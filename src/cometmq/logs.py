"""Logging of a process: one line an event, to stderr or a file, no raw control characters in it."""

import json
import logging
import sys
from logging.handlers import RotatingFileHandler
from pathlib import Path

from cometmq.errors import BadSetting
from cometmq.printable import one_line

_FILE_SIZE_MAX = 64 << 20
_FILES_KEPT = 5
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


class OneLine(logging.Formatter):
    """Time, level, logger, message; a traceback keeps its own lines, indented."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
        self.default_msec_format = "%s.%03d"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base's name
        """The line without its traceback."""
        return one_line(super().formatMessage(record))

    def formatException(self, exc_info: "logging._SysExcInfoType") -> str:  # noqa: N802
        """The traceback."""
        lines = super().formatException(exc_info).splitlines()
        return "\n".join("    " + one_line(line) for line in lines)


class JsonLines(logging.Formatter):
    """One JSON object a line, for machines."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        event = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S") + f".{record.msecs:03.0f}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            event["traceback"] = self.formatException(record.exc_info)
        return json.dumps(event)


def start_logging(levels: str = "info", *, file: Path | None = None, as_json: bool = False) -> None:
    """From now on, to stderr, or to a file that is rotated at 64 MiB.

    `levels` is a level, and after it others for parts: `info,store=debug,remoting=warning`.
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
    handler.setFormatter(JsonLines() if as_json else OneLine())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    for part, own in parts.items():
        logging.getLogger(f"cometmq.{part}").setLevel(own)


def _part(text: str) -> tuple[str, str]:
    """A module of ours, as its logger is called, and its level."""
    name, _, level = (each.strip() for each in text.partition("="))
    home = Path(__file__).parent
    files = (path.relative_to(home).with_suffix("") for path in home.rglob("*.py"))
    known = {".".join(path.parts).removesuffix(".__init__") for path in files}
    if name not in known:
        from difflib import get_close_matches  # for those who mistype alone

        near = get_close_matches(name, known, 1)
        hint = f"; did you mean {near[0]}?" if near else "; parts are store, broker, remoting, ..."
        raise BadSetting(f"--log-level: there is no part {name!r}{hint}")
    return name, _level(level)


def _level(text: str) -> str:
    level = text.strip().upper()
    if level not in _LEVELS:
        raise BadSetting(
            f"--log-level: {text!r} is none; use one of {', '.join(_LEVELS).lower()},"
            " and after it for parts: info,store=debug"
        )
    return level
