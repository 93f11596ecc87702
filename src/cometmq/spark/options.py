"""The options of `format("rocketmq")`, with the names that Spark's Kafka connector uses.

Spark passes names in any case. Unknown options are rejected, so that a misspelled one is noticed.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from cometmq.client.durations import parse_duration_ms
from cometmq.errors import BadExpression, BadName, BadSetting
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.filter.sql import compile_sql
from cometmq.protocol.names import check_group, check_topic
from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.link import Access
from cometmq.spark.read.name_servers import parse_name_servers
from cometmq.spark.read.offsets import Offsets, of_option, queues_of_option, times_of_option
from cometmq.spark.read.reading import Reading
from cometmq.spark.schema import COLUMNS, chosen_columns

Parse = Callable[[str, str], Any]

_GROUP = "spark-rocketmq"
_DELAY_MAX_MS = 900_000
_WORDS = {"true": True, "false": False}
# Spark adds these to every read or write.
_OF_SPARK = frozenset({"checkpointlocation", "queryname"})


def text(name: str, value: str) -> str:
    """Return the text without surrounding space; it must not be empty."""
    if not value.strip():
        raise BadSetting(f"option {name} is empty")
    return value.strip()


def whole(name: str, value: str) -> int:
    """Parse a positive integer."""
    if not value.strip().isdigit() or int(value) < 1:
        raise BadSetting(f"option {name} is {value!r}: expected a positive integer")
    return int(value)


def moment(name: str, value: str) -> int:
    """Parse milliseconds since 1970."""
    if not value.strip().isdigit():
        raise BadSetting(f"option {name} is {value!r}: expected milliseconds since 1970")
    return int(value)


def boolean(name: str, value: str) -> bool:
    """Parse `true` or `false`, in any case."""
    if value.strip().lower() not in _WORDS:
        raise BadSetting(f"option {name} is {value!r}: expected true or false")
    return _WORDS[value.strip().lower()]


def duration(name: str, value: str) -> int:
    """Parse a duration to milliseconds."""
    return parse_duration_ms(f"option {name}", value)


def topics(name: str, value: str) -> tuple[str, ...]:
    """Parse a comma-separated list of topics."""
    found = tuple(part.strip() for part in value.split(",") if part.strip())
    try:
        if not found:
            raise BadName("it contains no topic")
        return tuple(sorted({check_topic(topic) for topic in found}))
    except BadName as error:
        raise BadSetting(f"option {name} is {value!r}: {error}") from error


def group_name(name: str, value: str) -> str:
    """Check the name of a group."""
    try:
        return check_group(value.strip())
    except BadName as error:
        raise BadSetting(f"option {name}: {error}") from error


def pattern(name: str, value: str) -> str:
    """Check a regular expression."""
    try:
        re.compile(value)
    except re.error as error:
        raise BadSetting(
            f"option {name} is {value!r}: invalid regular expression: {error}"
        ) from error
    return value


def sql(name: str, value: str) -> str:
    """Check a SQL92 filter. Apache's broker treats an invalid filter as no filter."""
    try:
        compile_sql(value)
    except BadExpression as error:
        raise BadSetting(f"option {name} is {value!r}: {error}") from error
    return value


def _bound(name: str, value: str) -> str | Offsets:
    word = value.strip().lower()
    return word if word in ("earliest", "latest", "group") else of_option(name, value)


READ: dict[str, Parse] = {
    "nameServer": lambda name, value: parse_name_servers(value),
    "subscribe": topics,
    "subscribePattern": pattern,
    "assign": queues_of_option,
    "startingOffsets": _bound,
    "endingOffsets": _bound,
    "startingTimestamp": moment,
    "endingTimestamp": moment,
    "startingOffsetsByTimestamp": times_of_option,
    "endingOffsetsByTimestamp": times_of_option,
    "failOnDataLoss": boolean,
    "maxOffsetsPerTrigger": whole,
    "minOffsetsPerTrigger": whole,
    "maxTriggerDelay": duration,
    "maxBytesPerTrigger": whole,
    "minPartitions": whole,
    "maxRecordsPerPartition": whole,
    "tags": text,
    "sql92": sql,
    "group": group_name,
    "commitOffsets": boolean,
    "columns": lambda name, value: chosen_columns(value),
    "accessKey": text,
    "secretKey": text,
    "tls": boolean,
    "pullBatchSize": whole,
    "pullTimeoutMs": whole,
    "brokerTimeoutMs": whole,
}
# Option names of the older connector rocketmq-spark.
_OTHER_NAMES = {"topic": "subscribe", "subexpression": "tags"}


def parsed(
    given: Mapping[str, str], table: Mapping[str, Parse], others: Mapping[str, str]
) -> dict[str, Any]:
    """Parse options by a table; BadSetting for unknown options and for those given twice."""
    names = {name.lower(): name for name in table}
    found: dict[str, Any] = {}
    for key, value in given.items():
        lower = key.lower()
        name = names.get(lower) or others.get(lower)
        if name is None:
            if lower in _OF_SPARK:
                continue
            raise BadSetting(f"option {key} is unknown{_suggestion(lower, names)}")
        if name in found:
            raise BadSetting(f"option {name} is given twice, once by its older name")
        found[name] = table[name](name, value)
    return found


def _suggestion(word: str, names: Mapping[str, str]) -> str:
    near = get_close_matches(word, names, 1)
    known = ", ".join(names.values())
    return f": did you mean {names[near[0]]}?" if near else f"; known options: {known}"


def only_one(found: Mapping[str, Any], names: Iterable[str], needed: str | None = None) -> None:
    """Raise BadSetting if two of these options are given, or none although one is needed."""
    names = list(names)
    given = [name for name in names if name in found]
    if len(given) > 1:
        raise BadSetting(f"options {' and '.join(given)} are mutually exclusive")
    if needed and not given:
        raise BadSetting(f"one of the options {', '.join(names)} is required: {needed}")


def access_of(found: Mapping[str, Any]) -> Access:
    """Return credentials, TLS and timeout of connections."""
    if ("accessKey" in found) != ("secretKey" in found):
        raise BadSetting("options accessKey and secretKey must be given together")
    return Access(
        access_key=found.get("accessKey", ""),
        secret_key=found.get("secretKey", ""),
        tls=found.get("tls", False),
        timeout_ms=found.get("pullTimeoutMs", 10_000),
    )


def cluster_of(found: Mapping[str, Any]) -> Cluster:
    """Return the cluster of the option nameServer, which is required."""
    if "nameServer" not in found:
        raise BadSetting(
            "option nameServer is missing: expected host:port, separate several with ;"
        )
    return Cluster(found["nameServer"], access_of(found))


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The parsed options of a reader."""

    reading: Reading
    columns: tuple[str, ...] = COLUMNS
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: tuple[MessageQueue, ...] = ()
    start: str | Offsets | None = None
    end: str | Offsets | None = None
    start_ms: int | Offsets | None = None
    end_ms: int | Offsets | None = None
    tags: frozenset[str] = field(default_factory=frozenset)
    group: str | None = None
    commits: bool = False
    offsets_max: int | None = None
    offsets_min: int | None = None
    bytes_max: int | None = None
    delay_max_ms: int = _DELAY_MAX_MS
    partitions_min: int = 0
    partition_max: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "ReadOptions":
        """Parse the options that Spark passes; BadSetting names the wrong option."""
        found = parsed(given, READ, _OTHER_NAMES)
        only_one(found, ("subscribe", "subscribePattern", "assign"), "what to read")
        for side in ("starting", "ending"):
            only_one(found, (f"{side}Offsets", f"{side}Timestamp", f"{side}OffsetsByTimestamp"))
        only_one(found, ("tags", "sql92"))
        needs_group = found.get("commitOffsets") or "group" in (
            found.get("startingOffsets"),
            found.get("endingOffsets"),
        )
        if needs_group and "group" not in found:
            raise BadSetting("option group is missing: offsets of a group are read or committed")
        wanted = _tags(found.get("tags", "*"))
        kind, expression = "TAG", found.get("tags", "*")
        if "sql92" in found:
            kind, expression = "SQL92", found["sql92"]
        return cls(
            reading=Reading(
                cluster=cluster_of(found),
                group=found.get("group", _GROUP),
                expression=expression,
                expression_kind=kind,
                pull_count=found.get("pullBatchSize", 4096),
                broker_timeout_ms=found.get("brokerTimeoutMs", 30_000),
                fail_on_data_loss=found.get("failOnDataLoss", True),
            ),
            columns=found.get("columns", COLUMNS),
            topics=found.get("subscribe", ()),
            pattern=found.get("subscribePattern"),
            assigned=tuple(found.get("assign", ())),
            start=found.get("startingOffsets"),
            end=found.get("endingOffsets"),
            start_ms=found.get("startingTimestamp", found.get("startingOffsetsByTimestamp")),
            end_ms=found.get("endingTimestamp", found.get("endingOffsetsByTimestamp")),
            tags=wanted,
            group=found.get("group"),
            commits=found.get("commitOffsets", False),
            offsets_max=found.get("maxOffsetsPerTrigger"),
            offsets_min=found.get("minOffsetsPerTrigger"),
            bytes_max=found.get("maxBytesPerTrigger"),
            delay_max_ms=found.get("maxTriggerDelay", _DELAY_MAX_MS),
            partitions_min=found.get("minPartitions", 0),
            partition_max=found.get("maxRecordsPerPartition"),
        )


def _tags(expression: str) -> frozenset[str]:
    """Return the tags of `a || b`; an empty set for `*`."""
    if expression.strip() == "*":
        return frozenset()
    found = frozenset(part.strip() for part in expression.split("||"))
    if not all(found):
        raise BadSetting(f"option tags is {expression!r}: expected tags such as a || b")
    return found
