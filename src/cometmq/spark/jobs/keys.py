"""The option --key: what identifies a message, so that two messages with one key are the same."""

from pyspark.sql import Column
from pyspark.sql import functions as f

from cometmq.errors import BadSetting

_PROPERTY = "property:"
COLUMNS = "msgId,keys,properties,body"


def check_key(by: str) -> str:
    """Raise BadSetting unless the value of --key is valid."""
    if by in ("id", "keys", "body") or (by.startswith(_PROPERTY) and by != _PROPERTY):
        return by
    raise BadSetting(f"option --key is {by!r}: expected id, keys, body or property:NAME")


def key_of(by: str) -> Column:
    """Return the key as a column; null for a message without one."""
    if by.startswith(_PROPERTY):
        return f.col("properties")[by.removeprefix(_PROPERTY)]
    return {
        "id": f.col("msgId"),  # the sender's unique key
        "keys": f.nullif(f.concat_ws(" ", "keys"), f.lit("")),
        "body": f.sha2("body", 256),
    }[by]


def columns_for(by: str) -> str:
    """Return the columns that the key is computed from."""
    if by.startswith(_PROPERTY):
        return "properties"
    return {"id": "msgId", "keys": "keys", "body": "body"}[by]
