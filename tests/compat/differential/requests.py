"""Requests of every code, with every field of its header and its body spoiled in turn.

They follow from the route table, the header structs and the bodies of good requests: a new code or
field is covered without a change here. Names carry the number of their case, so that what a
request leaves behind can be attributed to it.
"""

import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec.inspect import BoolType, IntType, NoneType, StrType, UnionType, type_info

from cometmq.protocol.codes import RequestCode
from compat.differential.wire import Request

Fields = dict[str, object]
NAMES = {
    "T", "G", "P", "H", "New", "c1", "Unknown", "a/b", "../x", "T@G", "K", "N", "B", "A", "C",
}  # fmt: skip
FULL = os.environ.get("COMETMQ_DIFFERENTIAL") == "full"  # more values, for an hour of waiting
_LONG = "n" * 300
_PATHS_MAX = 80
_BRIEF = 3


@dataclass(frozen=True)
class Case:
    """A request: of which code, which field was spoiled, and how."""

    code: int
    field: str
    how: str
    fields: Fields | None
    body: bytes = b""
    flag: int = 0
    head: Fields = field(default_factory=dict)
    second_port: bool = False

    def __str__(self) -> str:
        return f"{self.code} {code_name(self.code)} | {self.field} | {self.how}"

    def request(self, number: int, facts: dict[str, str]) -> Request:
        """As it is sent to one server, whose facts fill the placeholders."""
        fields = None
        if self.fields is not None:
            fields = {name: _fill(value, number, facts) for name, value in self.fields.items()}
        return Request(self.code, fields, _named_body(self.body, number), self.flag, self.head)


def code_name(code: int) -> str:
    """Of a known code its name."""
    return RequestCode(code).name if code in set(RequestCode) else "unknown"


def named(text: str, number: int) -> str:
    """The name as the case with this number uses it."""
    return f"{text}_{number:05d}"


def _fill(value: object, number: int, facts: dict[str, str]) -> object:
    if not isinstance(value, str):
        return value
    if value == _LONG:
        return named(value[6:], number)
    if value in NAMES:
        return named(value, number)
    if value.startswith("{") and value.endswith("}"):
        return facts[value[1:-1]]
    return value.replace("#c1", named("c1", number)).replace("%G", f"%{named('G', number)}")


def _named_body(body: bytes, number: int) -> bytes:
    if not body.startswith(b"{"):
        return body
    for name in ("T", "G", "P", "New", "c1", "Unknown", "a/b"):
        quoted = json.dumps(name).encode()
        body = body.replace(quoted, json.dumps(named(name, number)).encode())
    return body.replace(b'"%RETRY%G"', b'"%RETRY%' + named("G", number).encode() + b'"')


def cases_of(
    code: int, header: type, fields: Fields, body: bytes, *, brief: bool = False
) -> Iterator[Case]:
    """Every case of one code; a few of each kind if it is `brief`, unless all are asked for."""
    brief = brief and not FULL
    good = Case(code, "", "good", fields or None, body)
    yield good
    yield replace(good, how="without any field", fields=None)
    yield replace(good, field="flag", how="unknown bits", flag=0x7FFFFFFC)
    yield replace(good, field="flag", how="one-way", flag=2)
    yield replace(good, field="flag", how="response", flag=1)
    yield replace(good, field="extFields", how="unknown field", fields=fields | {"nobody": "1"})
    yield replace(good, field="extFields", how="numbers as numbers", fields=_bare(fields))
    for each in type_info(header).fields:  # type: ignore[attr-defined]
        wire = each.encode_name
        rest = {name: value for name, value in fields.items() if name != wire}
        yield replace(good, field=wire, how="absent", fields=rest)
        for how, value in list(_values(each.type))[: _BRIEF if brief else None]:
            yield replace(good, field=wire, how=how, fields=fields | {wire: value})
    yield from list(_spoiled_bodies(good))[: 4 * _BRIEF if brief else None]
    yield replace(good, field="port", how="second", second_port=True)
    yield replace(good, field="port", how="second, no field", second_port=True, fields=None)


def head_cases(code: int, fields: Fields, body: bytes) -> Iterator[Case]:
    """The parts of a command's header that all codes share."""
    good = Case(code, "", "good", fields or None, body)
    heads: dict[str, list[Any]] = {
        "language": [None, "", "XYZ", "java", "GO", "CPP", 3, 99],
        "version": [None, -1, 0, 2**31 - 1, "x", "397"],
        "serializeTypeCurrentRPC": [None, "", "ROCKETMQ", "XYZ"],
        "remark": ["text", 5],
        "extFields": [[], "x", 5],
        "nobody": [1],
    }
    for name, values in heads.items():
        for value in values:
            yield replace(good, field=name, how=repr(value), head={name: value})


def _bare(fields: Fields) -> Fields:
    """Other clients send numbers and booleans as such."""
    bare = dict(fields)
    for name, value in fields.items():
        if isinstance(value, str) and value.lstrip("-").isdigit():
            bare[name] = int(value)
        elif value in ("true", "false"):
            bare[name] = value == "true"
    return bare


def _values(kind: Any) -> Iterator[tuple[str, object]]:
    if isinstance(kind, UnionType):
        # Of a boolean that may also be a text, the boolean.
        kind = next(each for each in kind.types if not isinstance(each, NoneType))
    yield "empty", ""
    yield "null", None
    match kind:
        case IntType():
            for value in (-1, 0, 1, kind.le, kind.ge):
                yield f"number {value}", str(value)
            yield "wrong, beyond its type", str(kind.le + 1)
            for value in ("x", "+1", *(("1.5", "true", " 1", "0x1", "007") if FULL else ())):
                yield f"wrong {value!r}", value
        case BoolType():
            for value in ("true", "false", "maybe", "1", *(("0", "TRUE", "-1") if FULL else ())):
                yield f"text {value}", value
        case StrType():
            more = ("../x", "a\x01b\x02c", "-1", "0") if FULL else ()
            for value in (" ", "Unknown", "a/b", "T@G", *more):
                yield f"text {value!r}", value
            yield "text of 300 characters", _LONG
        case _:
            raise AssertionError(f"no values for {kind}")


def _spoiled_bodies(good: Case) -> Iterator[Case]:
    """Every code is also sent a body that it does not expect."""
    bodies = {
        "none": b"", "garbage": b"garbage", "bytes": bytes(range(256)), "null": b"null",
        "list": b"[]", "number": b"12", "text": b'"x"', "object": b"{}", "open": b'{"a":',
        "other shape": b'{"groupName":{},"clientID":[],"table":5}',
    }  # fmt: skip
    if not good.body:
        yield replace(good, field="body", how="unexpected", body=b'{"a":1}')
        return
    for how, body in bodies.items():
        yield replace(good, field="body", how=how, body=body)
    yield replace(good, field="body", how="cut", body=good.body[: len(good.body) // 2])
    yield replace(good, field="body", how="cut by one", body=good.body[:-1])
    if good.body.startswith(b"{"):
        for how, edited in _edits(json.loads(good.body)):
            yield replace(good, field="body", how=how, body=json.dumps(edited).encode())


def _edits(value: Any) -> Iterator[tuple[str, Any]]:
    """The same JSON with one of its values left out, or replaced."""
    for path in list(_paths(value))[:_PATHS_MAX]:
        name = ".".join(map(str, path))
        yield f"{name} absent", _with(value, path, None, absent=True)
        old = _at(value, path)
        more = ("", 2**40, 1.5, True, [], ["x"]) if FULL else ()
        for new in (None, "x", -1, {}, *more):
            if type(new) is not type(old) or new != old:
                yield f"{name}={json.dumps(new)}", _with(value, path, new)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inner:
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from _paths(item, (*path, key))


def _at(value: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _with(value: Any, path: tuple[Any, ...], new: Any, *, absent: bool = False) -> Any:
    copy = json.loads(json.dumps(value))
    holder = _at(copy, path[:-1])
    if absent:
        del holder[path[-1]]
    else:
        holder[path[-1]] = new
    return copy


_ENTRY = struct.Struct(">iiiii")


def batch_entry(
    body: bytes, properties: bytes, *, size: int | None = None, magic: int = 0, crc: int = 0,
    flag: int = 0, body_size: int | None = None, properties_size: int | None = None,
) -> bytes:  # fmt: skip
    """One message of a batch body, whose sizes may lie."""
    whole = _ENTRY.size + len(body) + 2 + len(properties)
    return (
        _ENTRY.pack(
            whole if size is None else size, magic, crc, flag,
            len(body) if body_size is None else body_size,
        )
        + body
        + struct.pack(">h", len(properties) if properties_size is None else properties_size)
        + properties
    )  # fmt: skip
