"""By what two messages are one: a choice of the person who runs the job."""

from pyspark.sql import Column
from pyspark.sql import functions as f

from cometmq.errors import BadSetting

_PROPERTY = "property:"
COLUMNS = "msgId,keys,properties,body"


def check_key(by: str) -> str:
    """BadSetting if there is no such choice."""
    if by in ("id", "keys", "body") or (by.startswith(_PROPERTY) and by != _PROPERTY):
        return by
    raise BadSetting(f"option --key is {by!r}: id, keys, body, or property:NAME")


def key_of(by: str) -> Column:
    """Null in a message that has none."""
    if by.startswith(_PROPERTY):
        return f.col("properties")[by.removeprefix(_PROPERTY)]
    return {
        "id": f.col("msgId"),  # the sender's unique key
        "keys": f.nullif(f.concat_ws(" ", "keys"), f.lit("")),
        "body": f.sha2("body", 256),
    }[by]


def columns_for(by: str) -> str:
    """What of a message is needed for it."""
    if by.startswith(_PROPERTY):
        return "properties"
    return {"id": "msgId", "keys": "keys", "body": "body"}[by]
