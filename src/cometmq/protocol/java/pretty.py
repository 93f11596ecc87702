"""The indented JSON of the files in a broker's config folder, as Apache's broker writes them.

Each field and each entry of a map with text keys is on its own line, indented with tabs. Entries of
a map with number keys share one line, in numeric order. The order of text keys is arbitrary in
Apache's files: it is that of a Java hash table.
"""

from typing import Any

import msgspec

from cometmq.protocol.java.fastjson import Body, dumps


def pretty(body: Body) -> bytes:
    """The text of a config file."""
    return _text(body, "\n").encode()


def _text(value: object, line: str) -> str:
    """The text of a value. `line` is a line break and the indentation of the enclosing bracket."""
    if type(value) is int:
        return str(value)
    if isinstance(value, msgspec.Struct):
        return _object(value, line)
    if isinstance(value, dict):
        return _map(value, line)
    return dumps(value).decode()  # lists contain numbers, and are on one line


def _object(value: msgspec.Struct, line: str) -> str:
    inner = line + "\t"
    names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
    fields = [
        f'{inner}"{wire}":{_text(field, inner)}'
        for name, wire in names
        if (field := getattr(value, name)) is not None
    ]
    return "{" + (",".join(fields) or inner) + line + "}"


def _map(value: dict[Any, object], line: str) -> str:
    if not value:
        return "{}"
    inner = line + "\t"
    if all(type(key) is int for key in value):
        items = [f"{key}:{_text(item, inner)}" for key, item in sorted(value.items())]
    else:
        items = [f"{inner}{_text(key, inner)}:{_text(item, inner)}" for key, item in value.items()]
    return "{" + ",".join(items) + line + "}"
