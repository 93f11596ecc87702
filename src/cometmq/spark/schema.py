"""The columns of a message row, with Spark and Arrow types, which must match exactly."""

from collections.abc import Sequence

import pyarrow as pa

from cometmq.errors import BadSetting

_TIME = pa.timestamp("us", tz="UTC")
_KEYS = pa.list_(pa.field("element", pa.string()))
_PROPERTIES = pa.map_(pa.string(), pa.string())

# Name, Spark type, Arrow type. Spark declares all columns nullable, also those that never are null.
_COLUMNS: dict[str, tuple[str, pa.DataType]] = {
    "topic": ("string", pa.string()),
    "brokerName": ("string", pa.string()),
    "queueId": ("int", pa.int32()),
    "queueOffset": ("bigint", pa.int64()),
    "msgId": ("string", pa.string()),
    "body": ("binary", pa.binary()),
    "tags": ("string", pa.string()),
    "keys": ("array<string>", _KEYS),
    "properties": ("map<string,string>", _PROPERTIES),
    "flag": ("int", pa.int32()),
    "bornTimestamp": ("timestamp", _TIME),
    "storeTimestamp": ("timestamp", _TIME),
    "bornHost": ("string", pa.string()),
    "storeHost": ("string", pa.string()),
    "reconsumeTimes": ("int", pa.int32()),
}
COLUMNS = tuple(_COLUMNS)


def chosen_columns(text: str | None) -> tuple[str, ...]:
    """Parse the option `columns`; without it, return all columns."""
    if text is None:
        return COLUMNS
    by_lower = {name.lower(): name for name in COLUMNS}
    names = [name.strip() for name in text.split(",")]
    unknown = [name for name in names if name.lower() not in by_lower]
    if unknown or len(set(names)) != len(names):
        raise BadSetting(
            f"option columns is {text!r}: expected a comma-separated list without repetitions of"
            f" {', '.join(COLUMNS)}"
        )
    return tuple(by_lower[name.lower()] for name in names)


def ddl(columns: Sequence[str]) -> str:
    """Return the schema in Spark's DDL form."""
    return ", ".join(f"{name} {_COLUMNS[name][0]}" for name in columns)


def arrow_schema(columns: Sequence[str]) -> pa.Schema:
    """Return the schema for Arrow."""
    return pa.schema([(name, _COLUMNS[name][1]) for name in columns])
