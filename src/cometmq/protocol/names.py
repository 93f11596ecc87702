"""Names of topics and groups: what is valid, what is reserved, what is derived from what.

A name becomes a folder of the store, so it is checked where it is decoded, by a list of what is
allowed. A dot or a slash never is.
"""

import re

from cometmq.errors import BadName
from cometmq.protocol.limits import GROUP_LENGTH_MAX, TOPIC_LENGTH_MAX

RETRY_PREFIX = "%RETRY%"
DLQ_PREFIX = "%DLQ%"
REPLY_TOPIC_POSTFIX = "REPLY_TOPIC"
SYSTEM_TOPIC_PREFIX = "rmq_sys_"
SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
NAMESPACE_SEPARATOR = "%"
ROOM_SEPARATOR = "@"  # in the name of a broker, after its machine room

DEFAULT_TOPIC = "TBW102"  # the pattern from which unknown topics are made
SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_HALF_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
CHECKED_TOO_OFTEN_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST_TOPIC = "SELF_TEST_TOPIC"
BENCHMARK_TOPIC = "BenchmarkTest"
OFFSET_MOVED_TOPIC = "OFFSET_MOVED_EVENT"

SYSTEM_TOPICS = frozenset(
    {
        DEFAULT_TOPIC,
        SCHEDULE_TOPIC,
        BENCHMARK_TOPIC,
        HALF_TOPIC,
        TRACE_TOPIC,
        OP_HALF_TOPIC,
        CHECKED_TOO_OFTEN_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
# The topics nobody may send to by name.
CLOSED_TOPICS = frozenset(
    {
        SCHEDULE_TOPIC,
        HALF_TOPIC,
        OP_HALF_TOPIC,
        CHECKED_TOO_OFTEN_TOPIC,
        SELF_TEST_TOPIC,
        OFFSET_MOVED_TOPIC,
    }
)
BUILT_IN_GROUPS = frozenset(
    {
        "DEFAULT_CONSUMER",
        "DEFAULT_PRODUCER",
        "TOOLS_CONSUMER",
        "SCHEDULE_CONSUMER",
        "FILTERSRV_CONSUMER",
        "__MONITOR_CONSUMER",
        "CLIENT_INNER_PRODUCER",
        "SELF_TEST_P_GROUP",
        "SELF_TEST_C_GROUP",
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PULL",
        "CID_RMQ_SYS_TRANS",
    }
)

_VALID = re.compile(r"[%|a-zA-Z0-9_-]+", re.ASCII)


def check_topic(name: str) -> str:
    """The name itself, or BadName."""
    return _checked(name, "topic", TOPIC_LENGTH_MAX)


def check_group(name: str) -> str:
    """The name itself, or BadName."""
    return _checked(name, "group", GROUP_LENGTH_MAX)


def _checked(name: str, kind: str, length_max: int) -> str:
    if not name.strip():
        raise BadName(f"the {kind} name is empty")
    if not _VALID.fullmatch(name):
        raise BadName(f"the {kind} name {name[:80]!r} may hold only letters, digits and % | _ -")
    if len(name) > length_max:
        raise BadName(f"the {kind} name has {len(name)} characters, the limit is {length_max}")
    return name


def retry_topic(group: str) -> str:
    """Where messages wait that a member of `group` could not consume."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """Where messages end that `group` gave up."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Where the replies of request-reply calls go."""
    return f"{cluster}_{REPLY_TOPIC_POSTFIX}"


def is_system_topic(name: str) -> bool:
    """Made by the broker, not by a user."""
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(name: str) -> bool:
    """Used by the system itself. The built-in groups are not, and take a namespace like any."""
    return name.startswith(SYSTEM_GROUP_PREFIX)


def with_namespace(namespace: str, name: str) -> str:
    """`ns%name`; a retry or dead-letter prefix stays in front; system names stay as they are."""
    if not namespace or not name or is_system_topic(name) or is_system_group(name):
        return name
    prefix, bare = _split_prefix(name)
    if bare.startswith(namespace + NAMESPACE_SEPARATOR):
        return name
    return f"{prefix}{namespace}{NAMESPACE_SEPARATOR}{bare}"


def without_namespace(name: str, namespace: str | None = None) -> str:
    """The name as its owner wrote it; out of this namespace only, if one is given."""
    found = namespace_of(name)
    if not found or namespace not in (None, found):
        return name
    prefix, bare = _split_prefix(name)
    return prefix + bare.removeprefix(found + NAMESPACE_SEPARATOR)


def namespace_of(name: str) -> str:
    """The namespace in a name; empty where there is none."""
    if is_system_topic(name) or is_system_group(name):
        return ""
    namespace, separator, _ = _split_prefix(name)[1].partition(NAMESPACE_SEPARATOR)
    return namespace if separator else ""


def _split_prefix(name: str) -> tuple[str, str]:
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name


def machine_room(broker_name: str) -> str | None:
    """The part of a broker's name before its only `@`; None if the name has no such part."""
    room, separator, rest = broker_name.rstrip(ROOM_SEPARATOR).partition(ROOM_SEPARATOR)
    return room if separator and ROOM_SEPARATOR not in rest else None
