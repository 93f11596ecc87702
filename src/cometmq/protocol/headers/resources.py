"""The topic and the consumer group that a request header names.

A permission check looks here, so no handler has to say what it reads or writes. Headers follow one
convention, which `tests/protocol/test_resources.py` compares with every request of both servers.
Producer groups, `default_topic` and `origin_topic` are not resources: a peer may write anything
there.
"""

from operator import attrgetter
from typing import Any, NamedTuple

from cometmq.protocol.headers.base import Header

_TOPIC_FIELDS = ("topic",)
_GROUP_FIELDS = ("consumer_group", "group", "group_name", "compare_group", "dest_group")


class Resources(NamedTuple):
    """Names in a request; None where it names nothing of this kind."""

    topic: str | None
    group: str | None


class _Fields(NamedTuple):
    topic: str | None
    group: str | None


_fields: dict[type[Header], _Fields] = {}


def resources_of(header: Header) -> Resources:
    """The topic and the group that this request names."""
    fields = resource_fields(type(header))
    return Resources(_value(header, fields.topic), _value(header, fields.group))


def resource_fields(shape: type[Header]) -> _Fields:
    """The fields of a header that name a topic and a group."""
    found = _fields.get(shape)
    if found is None:
        names = shape.__struct_fields__
        found = _fields[shape] = _Fields(
            next((name for name in _TOPIC_FIELDS if name in names), None),
            next((name for name in _GROUP_FIELDS if name in names), None),
        )
    return found


def _value(header: Header, name: str | None) -> Any:
    return None if name is None else attrgetter(name)(header)
