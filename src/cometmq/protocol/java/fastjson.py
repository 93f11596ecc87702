"""Reads and writes the JSON dialect of fastjson, the JSON library of RocketMQ.

Fastjson writes maps with object keys as `{{"queueId":0}:1}`, and number keys unquoted: `{0:"a"}`.
It omits null fields and writes enums by name. Bodies are `msgspec.Struct`s. The reader first tries
standard JSON, which nearly every body is. A text in the dialect is rewritten to standard JSON, in
which an object key is a string that contains its JSON. A null instead of a value counts as missing,
and `{"$ref":"$.a"}` is a reference to the value at that path.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from functools import cache
from math import isfinite
from typing import Any, Self, TypeVar, cast, dataclass_transform

import msgspec
from msgspec.inspect import (
    CollectionType,
    DictType,
    StrType,
    StructType,
    Type,
    UnionType,
    type_info,
)

from cometmq.errors import Malformed
from cometmq.protocol.java.references import REFERENCE, resolve
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.java.values import double_text
from cometmq.protocol.limits import DIALECT_SIZE_MAX

T = TypeVar("T")

# One token: string, punctuation, or unquoted text (number, true, null, name).
_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([{}\[\],:])|([^\s{}\[\],:"]+))', re.DOTALL)
_LITERALS = frozenset({"true", "false", "null"})
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


@dataclass_transform(frozen_default=True, kw_only_default=True)  # mypy: inherited by subclasses
class Body(msgspec.Struct, frozen=True, kw_only=True, rename=camel()):
    """Base class of JSON bodies. Fields are in the order of their wire names, as in fastjson."""


class ObjectKey(ABC):
    """A value that can be the key of a map: written as an object, read from one or from its text.

    It is not a Struct, because msgspec gets keys as strings and decodes Structs only from objects.
    """

    __slots__ = ()

    @abstractmethod
    def fields(self) -> dict[str, object]:
        """The wire names and values of the fields, in wire order."""

    @classmethod
    @abstractmethod
    def of_fields(cls, fields: dict[str, Any]) -> Self:
        """The inverse of `fields`. Raises ValidationError if a value does not fit."""


def _read_custom(shape: type, found: object) -> object:
    assert issubclass(shape, ObjectKey), f"{shape} needs no hook"
    try:
        fields: Any = msgspec.json.decode(found) if isinstance(found, str) else found
        return shape.of_fields(fields)
    except msgspec.DecodeError as error:
        raise ValueError(f"{str(found)[:80]!r} is no {shape.__name__}") from error


@cache
def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape, strict=False, dec_hook=_read_custom)


def loads(data: bytes, shape: type[T]) -> T:
    """Decode a body. Raises Malformed if it is not JSON or does not fit the class."""
    decoder = _decoder(cast(Hashable, shape))
    with _faults_of(shape):
        try:
            return cast(T, _decode(data, decoder, shape))
        except msgspec.ValidationError:
            if b"null" not in data:
                raise
            plain = _without_nulls(_decode(data, _decoder(Any), shape))
            return cast(T, decoder.decode(msgspec.json.encode(plain)))


def reshape(plain: object, shape: type[T]) -> T:
    """Convert a body that was decoded without a class and then corrected."""
    with _faults_of(shape):
        return cast(T, _decoder(cast(Hashable, shape)).decode(msgspec.json.encode(plain)))


@contextmanager
def _faults_of(shape: type) -> Iterator[None]:
    try:
        yield
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"body is not a {shape.__name__}: {error}") from error
    except RecursionError as error:
        raise Malformed("body is nested too deeply") from error


def _decode(data: bytes, decoder: msgspec.json.Decoder[Any], shape: type) -> object:
    if REFERENCE in data:
        data = msgspec.json.encode(resolve(_decode_text(data, _decoder(Any), shape)))
    return _decode_text(data, decoder, shape)


def _decode_text(data: bytes, decoder: msgspec.json.Decoder[Any], shape: type) -> object:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise  # is a DecodeError, but the text is standard JSON
    except msgspec.DecodeError:
        # Rewriting takes up to a second per MiB: only for bodies that may need it.
        if len(data) > DIALECT_SIZE_MAX or not _has_odd_keys(cast(Hashable, shape)):
            raise
        return decoder.decode(standard_json(data.decode()))


@cache
def _has_odd_keys(shape: Any) -> bool:
    """Does the class contain a map whose keys are not strings?"""
    return any(
        isinstance(part, DictType) and not isinstance(part.key_type, StrType)
        for part in _parts_of(type_info(shape))
    )


def _parts_of(kind: Type) -> Iterator[Type]:
    yield kind
    inner: tuple[Type, ...] = ()
    if isinstance(kind, StructType):
        inner = tuple(field.type for field in kind.fields)
    elif isinstance(kind, DictType):
        inner = (kind.key_type, kind.value_type)
    elif isinstance(kind, CollectionType):
        inner = (kind.item_type,)
    elif isinstance(kind, UnionType):
        inner = kind.types
    for part in inner:
        yield from _parts_of(part)


def _without_nulls(plain: object) -> object:
    """The value without nulls, which some clients write instead of omitting a field."""
    if isinstance(plain, dict):
        return {key: _without_nulls(item) for key, item in plain.items() if item is not None}
    return list(map(_without_nulls, plain)) if isinstance(plain, list) else plain


def dumps(value: object, *, standard: bool = False) -> bytes:
    """Encode a body, in the dialect or as standard JSON: sorted, quoted keys and ASCII only."""
    return (_Writer(standard).text(value)).encode()


def standard_json(text: str) -> str:
    """Rewrite the dialect to standard JSON. Not recursive: nesting uses no stack."""
    open_brackets: list[str] = []
    key_at = key_depth = -1  # start of the current object key: position in `done`, nesting depth
    done: list[str] = []
    at, previous = 0, ""
    while (match := _TOKEN.match(text, at)) is not None:
        at = match.end()
        string, sign, bare = match.groups()
        expects_key = bool(open_brackets) and open_brackets[-1] == "{" and previous in ("{", ",")
        if sign in ("{", "["):
            if expects_key and key_at >= 0:
                # Each level of quoting would double the backslashes.
                raise Malformed(f"a key inside a key at {at}")
            if expects_key:
                key_at, key_depth = len(done), len(open_brackets)
            open_brackets.append(sign)
            done.append(sign)
        elif sign in ("}", "]"):
            if not open_brackets or "{}[]".index(sign) - "{}[]".index(open_brackets.pop()) != 1:
                raise Malformed(f"unexpected {sign!r} at {at}")
            done.append(sign)
            if key_depth == len(open_brackets):
                done[key_at:] = [_quoted("".join(done[key_at:]))]
                key_at = key_depth = -1
        elif bare is not None:
            done.append(_quoted(bare) if expects_key or not _is_value(bare) else bare)
        else:
            done.append(string or sign)
        previous = sign or "value"
    if text[at:].strip() or open_brackets:
        raise Malformed(f"not JSON near {text[at : at + 20]!r}")
    return "".join(done)


def _is_value(bare: str) -> bool:
    return bare in _LITERALS or _NUMBER.fullmatch(bare) is not None


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()


@cache
def _fields(shape: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """The attribute and the quoted wire name of each field."""
    return tuple(
        (name, _quoted(wire) + ":")
        for name, wire in zip(shape.__struct_fields__, shape.__struct_encode_fields__, strict=True)
    )


class _Writer:
    """Encodes values. Writes containers itself, because of their keys; msgspec does the rest."""

    def __init__(self, standard: bool) -> None:
        self._standard = standard

    def text(self, value: object) -> str:
        if isinstance(value, msgspec.Struct):
            return self._object(value)
        if isinstance(value, dict):
            return self._map(value)
        if isinstance(value, ObjectKey):
            return self._map(value.fields())
        if isinstance(value, list | tuple | set | frozenset):
            return "[" + ",".join(map(self.text, value)) + "]"
        if isinstance(value, str) and self._standard and not value.isascii():
            return _ascii_quoted(value)
        if isinstance(value, float) and isfinite(value):
            return double_text(value)
        return msgspec.json.encode(value).decode()

    def _object(self, value: msgspec.Struct) -> str:
        return (
            "{"
            + ",".join(
                name + self.text(field)
                for attribute, name in _fields(type(value))
                if (field := getattr(value, attribute)) is not None
            )
            + "}"
        )

    def _map(self, value: dict[Any, object]) -> str:
        items = [(key, item) for key, item in value.items() if item is not None]
        if self._standard:
            items.sort(key=lambda pair: pair[0])  # numbers sorted by value
        return "{" + ",".join(f"{self._key(key)}:{self.text(item)}" for key, item in items) + "}"

    def _key(self, key: object) -> str:
        written = self.text(key)
        return written if isinstance(key, str) or not self._standard else _quoted(written)


def _ascii_quoted(text: str) -> str:
    """A JSON string with non-ASCII characters escaped as UTF-16 units."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    return '"' + "".join(map(_ascii_unit, units)) + '"'


def _ascii_unit(unit: int) -> str:
    return _quoted(chr(unit))[1:-1] if unit < 128 else f"\\u{unit:04X}"
