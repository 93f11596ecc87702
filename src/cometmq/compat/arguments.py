"""Arguments of the constructors of Java's clients, recognized by type and position.

    (group)  (namespace, group)    then, each optional, in this order:
    a hook, which signs            None, or AclClientRPCHook(SessionCredentials(access, secret))
    a strategy, of consumers       None, or an allocation of cometmq
    enableMsgTrace                 a bool
    customizedTraceTopic           None, or a string

The first of two strings is the namespace, as in Java. Without arguments the group is Java's
default group, which cannot be started.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any

from cometmq.client.fields import Whole

_TIMEOUT_MS = Whole(0, 0, 2**63 - 1)
_TIMEOUT_MS.allowed = "milliseconds: a whole number, 0 or more"


@dataclass(frozen=True, slots=True)
class SessionCredentials:
    """The access key, the secret key and the token of an account."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class AclClientRPCHook:
    """Signs every request of a client."""

    credentials: SessionCredentials


@dataclass(frozen=True, slots=True)
class TraceWish:
    """Whether messages are traced, and the topic; None: RocketMQ's default topic."""

    is_on: bool = False
    topic: str | None = None


def in_seconds(timeout_ms: int | None) -> float | None:
    """Convert a timeout of Java's, which is in milliseconds, to seconds."""
    return None if timeout_ms is None else _TIMEOUT_MS.check("timeout", timeout_ms) / 1000


def settings_of(given: Sequence[Any], default_group: str) -> tuple[dict[str, Any], TraceWish]:
    """Return the settings and the trace wish; raise TypeError for invalid arguments."""
    if len(given) > 1 and given[0] is None and isinstance(given[1], str):
        given = ["", *given[1:]]  # null in Java: no namespace
    names = list(takewhile(lambda each: isinstance(each, str), given[:2]))
    group, namespace = (names or [default_group])[-1], names[0] if len(names) == 2 else ""
    values: dict[str, Any] = {"group": group, "namespace": namespace}
    is_traced: bool | None = None
    topic = None
    for one in given[len(names) :]:
        if isinstance(one, bool):
            is_traced = one
        elif isinstance(one, AclClientRPCHook):
            values |= {
                "access_key": one.credentials.access_key,
                "secret_key": one.credentials.secret_key,
                "security_token": one.credentials.security_token,
            }
        elif hasattr(one, "allocate"):
            values["allocation"] = one
        elif isinstance(one, str) and is_traced is not None:
            topic = one
        elif one is not None:
            raise TypeError(
                f"{one!r} is not a valid argument: give (group) or (namespace, group), then an"
                " AclClientRPCHook, a strategy, enableMsgTrace and customizedTraceTopic"
            )
    return values, TraceWish(bool(is_traced), topic)
