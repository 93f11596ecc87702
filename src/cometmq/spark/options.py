"""The options of `format("rocketmq")`: one table, names as users of Kafka's connector know them.

Spark gives names in any case. What is not in the table is refused, by name: a misspelled option
that is passed over would be found out by its result.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any

from cometmq.errors import BadExpression, BadName, BadSetting
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.filter.sql import compile_sql
from cometmq.protocol.names import check_group, check_topic
from cometmq.spark.read.cluster import Cluster, name_servers_of
from cometmq.spark.read.link import Access
from cometmq.spark.read.offsets import Offsets, of_option, queues_of_option, times_of_option
from cometmq.spark.read.pull import Reading
from cometmq.spark.schema import COLUMNS, chosen_columns

Parse = Callable[[str, str], Any]

_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")
_GROUP = "spark-rocketmq"
_WORDS = {"true": True, "false": False}
# Given by Spark itself with every read or write.
_OF_SPARK = frozenset({"checkpointlocation", "queryname"})


def text(name: str, value: str) -> str:
    """Anything but nothing."""
    if not value.strip():
        raise BadSetting(f"option {name} is empty")
    return value.strip()


def whole(name: str, value: str) -> int:
    """A number from 1 up."""
    if not value.strip().isdigit() or int(value) < 1:
        raise BadSetting(f"option {name} is {value!r}: a whole number from 1 up")
    return int(value)


def moment(name: str, value: str) -> int:
    """Milliseconds since 1970."""
    if not value.strip().isdigit():
        raise BadSetting(f"option {name} is {value!r}: milliseconds since 1970, a whole number")
    return int(value)


def yes_or_no(name: str, value: str) -> bool:
    """As Spark writes it."""
    if value.strip().lower() not in _WORDS:
        raise BadSetting(f"option {name} is {value!r}: true or false")
    return _WORDS[value.strip().lower()]


def seconds(name: str, value: str) -> float:
    """`30s`, `15m`, `500ms`; a bare number is milliseconds."""
    found = _DURATION.fullmatch(value.lower())
    if found is None or (found[2] and found[2] not in _UNITS_S):
        raise BadSetting(f"option {name} is {value!r}: such as 500ms, 30s, 15m or 2h")
    return float(found[1]) * _UNITS_S[found[2] or "ms"]


def topics(name: str, value: str) -> tuple[str, ...]:
    """One or more, with commas."""
    found = tuple(part.strip() for part in value.split(",") if part.strip())
    try:
        if not found:
            raise BadName("it is empty")
        return tuple(sorted({check_topic(topic) for topic in found}))
    except BadName as error:
        raise BadSetting(f"option {name} is {value!r}: {error}") from error


def group_name(name: str, value: str) -> str:
    """Of consumers."""
    try:
        return check_group(value.strip())
    except BadName as error:
        raise BadSetting(f"option {name}: {error}") from error


def pattern(name: str, value: str) -> str:
    """A regular expression."""
    try:
        re.compile(value)
    except re.error as error:
        raise BadSetting(f"option {name} is {value!r}, no regular expression: {error}") from error
    return value


def sql(name: str, value: str) -> str:
    """Read here too: a broker of Apache's takes one that it cannot read for none at all."""
    try:
        compile_sql(value)
    except BadExpression as error:
        raise BadSetting(f"option {name} is {value!r}: {error}") from error
    return value


def _place(name: str, value: str) -> str | Offsets:
    word = value.strip().lower()
    return word if word in ("earliest", "latest", "group") else of_option(name, value)


READ: dict[str, Parse] = {
    "nameServer": lambda name, value: name_servers_of(value),
    "subscribe": topics,
    "subscribePattern": pattern,
    "assign": queues_of_option,
    "startingOffsets": _place,
    "endingOffsets": _place,
    "startingTimestamp": moment,
    "endingTimestamp": moment,
    "startingOffsetsByTimestamp": times_of_option,
    "endingOffsetsByTimestamp": times_of_option,
    "failOnDataLoss": yes_or_no,
    "maxOffsetsPerTrigger": whole,
    "minOffsetsPerTrigger": whole,
    "maxTriggerDelay": seconds,
    "maxBytesPerTrigger": whole,
    "minPartitions": whole,
    "maxRecordsPerPartition": whole,
    "tags": text,
    "sql92": sql,
    "group": group_name,
    "commitOffsets": yes_or_no,
    "columns": lambda name, value: chosen_columns(value),
    "accessKey": text,
    "secretKey": text,
    "tls": yes_or_no,
    "pullBatchSize": whole,
    "pullTimeoutMs": whole,
    "brokerTimeoutMs": whole,
}
# Of the older connector, rocketmq-spark.
_OTHER_NAMES = {"topic": "subscribe", "subexpression": "tags"}


def parsed(
    given: Mapping[str, str], table: Mapping[str, Parse], others: Mapping[str, str]
) -> dict[str, Any]:
    """Values by the table's names; BadSetting for what is not in it, or given by two names."""
    names = {name.lower(): name for name in table}
    found: dict[str, Any] = {}
    for key, value in given.items():
        lower = key.lower()
        name = names.get(lower) or others.get(lower)
        if name is None:
            if lower in _OF_SPARK:
                continue
            raise BadSetting(f"option {key} is not known{_guess(lower, names)}")
        if name in found:
            raise BadSetting(f"option {name} is given twice, once by an older name")
        found[name] = table[name](name, value)
    return found


def _guess(word: str, names: Mapping[str, str]) -> str:
    near = get_close_matches(word, names, 1)
    return f": is {names[near[0]]} meant?" if near else f": there are {', '.join(names.values())}"


def only_one(found: Mapping[str, Any], names: Iterable[str], needed: str | None = None) -> None:
    """BadSetting if two of them are given, or none of them where one is needed."""
    names = list(names)
    given = [name for name in names if name in found]
    if len(given) > 1:
        raise BadSetting(f"options {' and '.join(given)} exclude one another: give one of them")
    if needed and not given:
        raise BadSetting(f"one of the options {', '.join(names)} is needed: {needed}")


def access_of(found: Mapping[str, Any]) -> Access:
    """How servers are spoken to."""
    if ("accessKey" in found) != ("secretKey" in found):
        raise BadSetting("options accessKey and secretKey belong together: give both, or none")
    return Access(
        access_key=found.get("accessKey", ""),
        secret_key=found.get("secretKey", ""),
        tls=found.get("tls", False),
        timeout_ms=found.get("pullTimeoutMs", 10_000),
    )


def cluster_of(found: Mapping[str, Any]) -> Cluster:
    """By the option nameServer, which must be there."""
    if "nameServer" not in found:
        raise BadSetting("option nameServer is missing: host:port, or several with ;")
    return Cluster(found["nameServer"], access_of(found))


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a reader is asked for."""

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
    delay_max_s: float = 900
    partitions_min: int = 0
    partition_max: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "ReadOptions":
        """From what Spark was given; BadSetting, which names the option, if it cannot be."""
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
            raise BadSetting("option group is missing: whose offsets are meant?")
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
                patience_ms=found.get("brokerTimeoutMs", 30_000),
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
            delay_max_s=found.get("maxTriggerDelay", 900),
            partitions_min=found.get("minPartitions", 0),
            partition_max=found.get("maxRecordsPerPartition"),
        )


def _tags(expression: str) -> frozenset[str]:
    """Of `a || b`; none, if all are wanted."""
    if expression.strip() == "*":
        return frozenset()
    found = frozenset(part.strip() for part in expression.split("||"))
    if not all(found):
        raise BadSetting(f"option tags is {expression!r}: such as a || b")
    return found
