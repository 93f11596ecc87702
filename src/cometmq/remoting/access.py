"""What a request needs to be admitted: the access column of a route table.

Each row of a table has an `AccessRule`. From the rule and the request follow the `Need`s, which a
guard compares with the permissions of the peer's account. Without a guard they are not computed.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol

from cometmq.protocol.headers.base import Header
from cometmq.protocol.headers.resources import resources_of


class Action(Enum):
    """What an account may be allowed to do."""

    PUB = "PUB"
    SUB = "SUB"
    PUB_OR_SUB = "PUB or SUB"
    ADMIN = "admin"
    REPLICA = "replica"  # copy the tables of a master
    BROKER = "broker"  # register at a name server


class Resource(Enum):
    """What an action applies to."""

    TOPIC = "topic"
    GROUP = "group"


class Need(NamedTuple):
    """One action on one resource; ADMIN, REPLICA and BROKER have no resource."""

    action: Action
    kind: Resource | None = None
    name: str = ""


class Principal(Protocol):
    """The account behind a request."""

    def require(self, need: Need) -> None:
        """Raise Refused unless the account may do this."""


class Unrestricted:
    """The principal of every request to a server without access control."""

    def require(self, need: Need) -> None:
        """Permit everything."""


UNRESTRICTED = Unrestricted()


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessRule:
    """The access column of one row. `ACCOUNT` is the least: any account."""

    is_open: bool = False  # the peer need not authenticate
    action: Action | None = None  # without a resource
    topic: Action | None = None  # on the topic in the header, if the header names one
    group: Action | None = None  # on the group in the header, if the header names one
    body: Callable[[bytes], Iterable[Need]] | None = None  # on what the body names
    late: Action | None = None  # on the topic of a stored message: the handler requires it

    def needs(self, header: Header, body: bytes) -> Iterator[Need]:
        """What this request needs. Raises Malformed if the body cannot be read."""
        if self.action is not None:
            yield Need(self.action)
        if self.topic is not None or self.group is not None:
            topic, group = resources_of(header)
            if self.topic is not None and topic:
                yield Need(self.topic, Resource.TOPIC, topic)
            if self.group is not None and group:
                yield Need(self.group, Resource.GROUP, group)
        if self.body is not None:
            yield from self.body(body)

    def __str__(self) -> str:
        if self.is_open:
            return "open"
        parts = [] if self.action is None else [self.action.value]
        if self.topic is not None:
            parts.append(f"{self.topic.value} topic")
        if self.group is not None:
            parts.append(f"{self.group.value} group")
        if self.body is not None:
            parts.append("SUB on each topic and group in the body")
        if self.late is not None:
            parts.append(f"{self.late.value} on the topic of the stored message")
        return ", ".join(parts) or "any account"


OPEN = AccessRule(is_open=True)
ACCOUNT = AccessRule()
ADMIN = AccessRule(action=Action.ADMIN)
REPLICA = AccessRule(action=Action.REPLICA)
BROKER = AccessRule(action=Action.BROKER)
PUBLISH = AccessRule(topic=Action.PUB)
SUBSCRIBE = AccessRule(topic=Action.SUB)
CONSUME = AccessRule(topic=Action.SUB, group=Action.SUB)
OF_GROUP = AccessRule(group=Action.SUB)
OF_TOPIC = AccessRule(topic=Action.PUB_OR_SUB)
