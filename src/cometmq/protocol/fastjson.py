"""JSON in the dialect of the other side's library, both ways.

It writes maps whose keys are objects as `{{"queueId":0}:1}` and number keys bare, `{0:"a"}`; it
leaves null fields out; enum values travel by name. Bodies are `msgspec.Struct`s. Reading tries
standard JSON first, which nearly every body is; a text in the dialect is rewritten into standard
JSON, with an object key as a string that holds the key's own JSON.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Hashable
from functools import cache
from typing import Any, Self, TypeVar, cast, dataclass_transform

import msgspec

from cometmq.errors import Malformed
from cometmq.protocol.spelling import camel

T = TypeVar("T")

# One token: string, punctuation, or anything bare (number, true, null, an unquoted name).
_TOKEN = re.compile(r'\s*(?:("(?:[^"\\]|\\.)*")|([{}\[\],:])|([^\s{}\[\],:"]+))', re.DOTALL)
_LITERALS = frozenset({"true", "false", "null"})
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


@dataclass_transform(frozen_default=True, kw_only_default=True)  # so that mypy sees it inherited
class Body(msgspec.Struct, frozen=True, kw_only=True, rename=camel()):
    """Base of all JSON bodies. Fields stand in the order of their wire names, as there."""


class ObjectKey(ABC):
    """A value that may stand as a map's key: written as an object, read from one or from its text.

    Not a Struct: msgspec reads those from objects only, and a key reaches it as a string.
    """

    __slots__ = ()

    @abstractmethod
    def fields(self) -> dict[str, object]:
        """Wire names and values, in wire order."""

    @classmethod
    @abstractmethod
    def of_fields(cls, fields: dict[str, Any]) -> Self:
        """The inverse of `fields`; KeyError, TypeError or ValueError if it cannot be."""


def _read_custom(shape: type, found: object) -> object:
    assert issubclass(shape, ObjectKey), f"{shape} needs no hook"
    try:
        fields: Any = msgspec.json.decode(found) if isinstance(found, str) else found
        return shape.of_fields(fields)
    except (KeyError, TypeError) as error:
        raise ValueError(f"{found!r} is no {shape.__name__}") from error


@cache
def _decoder(shape: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape, strict=False, dec_hook=_read_custom)


def loads(data: bytes, shape: type[T]) -> T:
    """The value of a body; Malformed when it is no JSON, or not of this shape."""
    try:
        return cast(T, _decode(data, _decoder(cast(Hashable, shape))))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"body is no {shape.__name__}: {error}") from error
    except RecursionError as error:
        raise Malformed("body is nested too deeply") from error


def _decode(data: bytes, decoder: msgspec.json.Decoder[Any]) -> object:
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise  # a DecodeError too, but of JSON that could be read
    except msgspec.DecodeError:
        return decoder.decode(standard_json(data.decode()))


def reshape(plain: object, shape: type[T]) -> T:
    """The value of a body that was read without a shape and put right."""
    try:
        return msgspec.convert(plain, shape, strict=False, dec_hook=_read_custom)
    except msgspec.ValidationError as error:
        raise Malformed(f"body is no {shape.__name__}: {error}") from error


def dumps(value: object, *, standard: bool = False) -> bytes:
    """The JSON of a body: in the dialect, or with every key quoted and sorted, in ASCII."""
    return (_Writer(standard).text(value)).encode()


def standard_json(text: str) -> str:
    """The same JSON with every key a string. Not recursive: depth costs no stack."""
    open_brackets: list[str] = []
    # Where in `done` the key began that each open object has last seen, if it is an object itself.
    key_starts: list[int | None] = []
    done: list[str] = []
    at, previous = 0, ""
    while (match := _TOKEN.match(text, at)) is not None:
        at = match.end()
        string, sign, bare = match.groups()
        expects_key = bool(open_brackets) and open_brackets[-1] == "{" and previous in ("{", ",")
        if sign in ("{", "["):
            key_starts.append(len(done) if expects_key else None)
            open_brackets.append(sign)
            done.append(sign)
        elif sign in ("}", "]"):
            if not open_brackets or "{}[]".index(sign) - "{}[]".index(open_brackets.pop()) != 1:
                raise Malformed(f"unexpected {sign!r} at {at}")
            done.append(sign)
            start = key_starts.pop()
            if start is not None:
                done[start:] = [_quoted("".join(done[start:]))]
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
    """Attribute and quoted wire name of each field."""
    return tuple(
        (name, _quoted(wire) + ":")
        for name, wire in zip(shape.__struct_fields__, shape.__struct_encode_fields__, strict=True)
    )


class _Writer:
    """Values to text. Containers are ours to write, because of their keys; leaves are msgspec's."""

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
        items = [(self._key(key), item) for key, item in value.items() if item is not None]
        if self._standard:
            items.sort(key=lambda pair: pair[0])
        return "{" + ",".join(f"{key}:{self.text(item)}" for key, item in items) + "}"

    def _key(self, key: object) -> str:
        written = self.text(key)
        return written if isinstance(key, str) or not self._standard else _quoted(written)


def _ascii_quoted(text: str) -> str:
    """Non-ASCII characters as \\uXXXX, by UTF-16 units, for readers that assume nothing."""
    units = memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    return '"' + "".join(map(_ascii_unit, units)) + '"'


def _ascii_unit(unit: int) -> str:
    return _quoted(chr(unit))[1:-1] if unit < 128 else f"\\u{unit:04X}"
