"""Tag expressions like "a || b", and the hashes of tags.

A consume queue contains the hash of a message's tag. The broker compares hashes, the consumer
compares the tags themselves.
"""

from cometmq.errors import BadExpression
from cometmq.protocol.bodies.heartbeat import Subscription
from cometmq.protocol.java.values import hash_code

TAG = "TAG"
SQL92 = "SQL92"
ALL = "*"
_SEPARATOR = "||"
_BLANKS = "".join(map(chr, range(33)))  # the characters that Java's `trim` removes


def tag_codes(expression: str) -> frozenset[int] | None:
    """The hashes of the tags of an expression; None if it matches every message."""
    tags = wanted_tags(expression)
    return None if tags is None else frozenset(map(hash_code, tags))


def wanted_tags(expression: str) -> list[str] | None:
    """The tags of an expression; None if it matches every message."""
    if expression in ("", ALL):
        return None
    parts = expression.split(_SEPARATOR)
    if not any(parts):
        raise BadExpression("a tag expression must contain a tag")
    # Blank parts are skipped; if all are blank, no message matches.
    return list(dict.fromkeys(tag for part in parts if (tag := part.strip(_BLANKS))))


def subscription_of(
    topic: str, expression: str, kind: str = TAG, *, version: int = 0
) -> Subscription:
    """The subscription of a client; `version` is the time of its creation in milliseconds.

    Only TAG expressions are checked here; `compile_sql` checks others.
    """
    if kind == TAG:
        tags = wanted_tags(expression)
        return Subscription(
            topic=topic,
            sub_string=ALL if tags is None else expression,
            sub_version=version,
            tags_set=tags or [],
            code_set=list(dict.fromkeys(map(hash_code, tags or []))),
        )
    if not expression:
        raise BadExpression(f"an expression of type {kind} must not be empty")
    return Subscription(
        topic=topic, sub_string=expression, sub_version=version, expression_type=kind
    )
