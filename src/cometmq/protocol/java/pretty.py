"""Bodies as a broker of the original keeps them in its config folder: over lines, with tabs.

Its library gives each field a line of its own, and each entry of a map whose keys are texts; where
keys are numbers the entries follow each other, in the order of the numbers, and only the bracket
stands alone. The order of texts is that of a Java hash table there, which says nothing: it differs
between a broker and the same one started again.
"""

from typing import Any

import msgspec

from cometmq.protocol.java.fastjson import Body, dumps


def pretty(body: Body) -> bytes:
    """The text of a file."""
    return _text(body, "\n").encode()


def _text(value: object, line: str) -> str:
    """A value; `line` is the end of a line, and the tabs that the one with its bracket has."""
    if type(value) is int:
        return str(value)
    if isinstance(value, msgspec.Struct):
        return _object(value, line)
    if isinstance(value, dict):
        return _map(value, line)
    return dumps(value).decode()  # lists are arrays of numbers there, and take one line


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
