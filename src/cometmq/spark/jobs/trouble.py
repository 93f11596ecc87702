"""What goes wrong inside Spark, told in the words of where it went wrong.

Errors of ours that are raised in a worker reach the driver as text in an exception of Spark's.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from cometmq.errors import PeerError, WorldError

_OURS = re.compile(r"^cometmq\.(?:errors|spark\.pull)\.\w+: (.+)$", re.MULTILINE)
_CONDITION = re.compile(r"^\[[A-Z_.]+\]\s*")
_CALL = "An error occurred while calling"  # whose reason is in the next line
_LENGTH_MAX = 500


@contextmanager
def in_one_line() -> Iterator[None]:
    """WorldError with what a person can use, in place of Spark's pages."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise WorldError(reason_of(str(error))) from error
    except PeerError as error:
        raise WorldError(str(error)) from error


def reason_of(text: str) -> str:
    """Our own words, if they are in it; else the first line."""
    ours = _OURS.findall(text)
    if ours:
        return str(ours[-1]).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    if len(lines) > 1 and lines[0].startswith(_CALL):
        lines = [lines[1].removeprefix(": "), *lines[2:]]
    first = _CONDITION.sub("", lines[0]) if lines else "no reason given"
    return f"Spark says: {first[:_LENGTH_MAX]}"
