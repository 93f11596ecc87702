"""Tag expressions, "a || b": which tags a subscription wants, and the hashes of them.

The queue keeps the hash of a message's tag, not the tag: the broker compares hashes, and the
consumer the tags themselves.
"""

from cometmq.errors import BadExpression
from cometmq.protocol.bodies.heartbeat import Subscription
from cometmq.protocol.java.values import hash_code

TAG = "TAG"
SQL92 = "SQL92"
ALL = "*"
_SEPARATOR = "||"
_BLANKS = "".join(map(chr, range(33)))  # what Java's `trim` takes away


def tag_codes(expression: str) -> frozenset[int] | None:
    """The hashes of the tags that are wanted; None if every message is."""
    tags = wanted_tags(expression)
    return None if tags is None else frozenset(map(hash_code, tags))


def wanted_tags(expression: str) -> list[str] | None:
    """The tags, each once; None if every message is wanted, tagged or not."""
    if expression in ("", ALL):
        return None
    parts = expression.split(_SEPARATOR)
    if not any(parts):
        raise BadExpression("separators alone are no tag expression")
    # Blank parts are passed over; if all are blank, nothing is wanted.
    return list(dict.fromkeys(tag for part in parts if (tag := part.strip(_BLANKS))))


def subscription_of(
    topic: str, expression: str, kind: str = TAG, *, version: int = 0
) -> Subscription:
    """As a client makes it; `version` is the time of its making in milliseconds.

    An expression of another kind than TAG is taken as it is: `compile_sql` knows if it is one.
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
        raise BadExpression(f"an expression of kind {kind} must say something")
    return Subscription(
        topic=topic, sub_string=expression, sub_version=version, expression_type=kind
    )
