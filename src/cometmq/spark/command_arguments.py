"""Arguments of `cometmq pipeline`: texts to values, checked before Spark starts.

Modules of the extra `spark` are imported here on demand, because Spark is large and optional.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import import_module
from typing import Any

from cometmq.client.durations import parse_duration_ms
from cometmq.errors import BadSetting, NotInstalled

_INSTALL = "pip install 'cometmq[spark]', or cometmq pipeline doctor --fix"


def source_options(
    name_server: str,
    topics: str,
    more: Sequence[str] | None,
    begin: str | None = None,
    end: str | None = None,
) -> dict[str, str]:
    """Return the options of a read after checking that its topics exist."""
    source = {"nameServer": name_server, "subscribe": topics}
    source |= name_value_pairs(more) | time_range(begin, end)
    load_job("sources").check(source)
    return source


def other_topic(source: dict[str, str], topic: str) -> dict[str, str]:
    """Return the options that read all of another topic of the same cluster."""
    sources = load_job("sources")
    other: dict[str, str] = {**sources.server_options(source), "subscribe": topic}
    sources.check(other)
    return other


def time_range(begin: str | None, end: str | None) -> dict[str, str]:
    """Return the options for --from and --to."""
    times = {"startingTimestamp": moment("--from", begin), "endingTimestamp": moment("--to", end)}
    return {name: str(at) for name, at in times.items() if at is not None}


def name_value_pairs(more: Sequence[str] | None) -> dict[str, str]:
    """Parse the values of --option, each NAME=VALUE."""
    found = {}
    for each in more or ():
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise BadSetting(f"option --option is {each!r}: expected NAME=VALUE")
        found[name] = value
    return found


def word_list(option: str, text: str) -> list[str]:
    """Split a comma-separated list, which must not be empty."""
    found = [word.strip() for word in text.split(",") if word.strip()]
    if not found:
        raise BadSetting(f"option {option} is empty: expected a comma-separated list")
    return found


def moment(option: str, text: str | None) -> int | None:
    """Parse a date or a time, in UTC unless it has a zone, to milliseconds since 1970."""
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise BadSetting(
            f"option {option} is {text!r}: expected a time such as 2026-05-01 or 2026-05-01T10:30,"
            " in UTC"
        ) from None
    return round((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def duration(option: str, text: str) -> int:
    """Parse a duration to milliseconds."""
    return parse_duration_ms(f"option {option}", text)


def load_job(name: str) -> Any:
    """Import a module of `spark/jobs`."""
    return load(f"cometmq.spark.jobs.{name}")


def load(name: str) -> Any:
    """Import a module; NotInstalled names the missing package and how to install it."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = (error.name or "a package").partition(".")[0]
        raise NotInstalled(f"{package} is missing: {_INSTALL}") from error
