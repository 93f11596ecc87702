"""Spark's exceptions as one-line errors.

An exception of cometmq that is raised in a worker reaches the driver as text inside an exception of
Spark. `reason_of` finds that text again.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from cometmq.errors import PeerError, WorldError

_OURS = re.compile(r"^cometmq(?:\.\w+)+: (.+)$", re.MULTILINE)
_CONDITION = re.compile(r"^\[[A-Z_.]+\]\s*")
_CALL = "An error occurred while calling"  # the next line gives the reason
_LENGTH_MAX = 500


@contextmanager
def in_one_line() -> Iterator[None]:
    """Raise a WorldError with a single line instead of Spark's long traces."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise WorldError(reason_of(str(error))) from error
    except PeerError as error:
        raise WorldError(str(error)) from error


def reason_of(text: str) -> str:
    """Return the message of our own exception if the text contains one, else its first line."""
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(_CALL):
        lines = [lines[1].removeprefix(": "), *lines[2:]]
    first = _CONDITION.sub("", lines[0]) if lines else "no reason given"
    return f"Spark says: {first[:_LENGTH_MAX]}"
