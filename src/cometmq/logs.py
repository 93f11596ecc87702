"""Logging of a process: one line an event, to stderr, and no raw control characters in it.

A topic name or a remark may come from anybody: what would forge a line or move a terminal's
cursor is shown escaped.
"""

import logging
import re
import sys

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


class OneLine(logging.Formatter):
    """Time, level, logger, message; a traceback keeps its own lines, indented."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)-7s %(name)s: %(message)s")
        self.default_msec_format = "%s.%03d"

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the base's name
        """The line without its traceback."""
        return _CONTROL.sub(_escaped, super().formatMessage(record))

    def formatException(self, exc_info: "logging._SysExcInfoType") -> str:  # noqa: N802
        """The traceback."""
        lines = super().formatException(exc_info).splitlines()
        return "\n".join("    " + _CONTROL.sub(_escaped, line) for line in lines)


def _escaped(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


def start_logging(level: str = "INFO") -> None:
    """To stderr, from now on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(OneLine())
    logging.basicConfig(level=level, handlers=[handler], force=True)
