"""Names of topics and groups: valid, reserved and derived names.

A topic name becomes a folder of the store. Names are therefore checked where they are decoded,
against a list of allowed characters, which has no dot and no slash.
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

DEFAULT_TOPIC = "TBW102"  # the template of automatically created topics
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
# Topics that producers may not send to.
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
    """Return the name. Raises BadName if it is not a valid topic name."""
    return _checked(name, "topic", TOPIC_LENGTH_MAX)


def check_group(name: str) -> str:
    """Return the name. Raises BadName if it is not a valid group name."""
    return _checked(name, "group", GROUP_LENGTH_MAX)


def _checked(name: str, kind: str, length_max: int) -> str:
    if not name.strip():
        raise BadName(f"the {kind} name is empty")
    if not _VALID.fullmatch(name):
        raise BadName(f"the {kind} name {name[:80]!r} may contain only letters, digits and % | _ -")
    if len(name) > length_max:
        raise BadName(f"the {kind} name has {len(name)} characters, the limit is {length_max}")
    return name


def retry_topic(group: str) -> str:
    """The topic of messages that `group` failed to consume and will retry."""
    return RETRY_PREFIX + group


def dlq_topic(group: str) -> str:
    """The topic of messages that `group` failed to consume too often."""
    return DLQ_PREFIX + group


def reply_topic(cluster: str) -> str:
    """The topic of replies in request-reply calls."""
    return f"{cluster}_{REPLY_TOPIC_POSTFIX}"


def is_system_topic(name: str) -> bool:
    """Is the topic created by the broker itself?"""
    return name in SYSTEM_TOPICS or name.startswith(SYSTEM_TOPIC_PREFIX)


def is_system_group(name: str) -> bool:
    """Is the group used by RocketMQ itself? Built-in groups for users are not system groups."""
    return name.startswith(SYSTEM_GROUP_PREFIX)


def with_namespace(namespace: str, name: str) -> str:
    """`ns%name`. A retry or dead-letter prefix stays in front; system names are unchanged."""
    if not namespace or not name or is_system_topic(name) or is_system_group(name):
        return name
    prefix, bare = _split_prefix(name)
    if bare.startswith(namespace + NAMESPACE_SEPARATOR):
        return name
    return f"{prefix}{namespace}{NAMESPACE_SEPARATOR}{bare}"


def without_namespace(name: str, namespace: str | None = None) -> str:
    """The name without its namespace; only without `namespace`, if it is given."""
    found = namespace_of(name)
    if not found or namespace not in (None, found):
        return name
    prefix, bare = _split_prefix(name)
    return prefix + bare.removeprefix(found + NAMESPACE_SEPARATOR)


def namespace_of(name: str) -> str:
    """The namespace of a name, or an empty text."""
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
