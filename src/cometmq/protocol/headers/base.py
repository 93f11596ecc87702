"""Header structs to and from the extension fields of a command.

A field without a default is required. A field that is None is not written. Wire names are the
attribute names in camel case; exceptions are given with `rename`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, TypeVar, dataclass_transform

import msgspec
from msgspec.inspect import BoolType, IntType, UnionType, type_info

from cometmq.errors import BadHeader
from cometmq.protocol.command import NO_FIELDS, Command
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.java.values import java_text


@dataclass_transform(frozen_default=True, kw_only_default=True)  # mypy: inherited by subclasses
class Header(msgspec.Struct, frozen=True, kw_only=True, rename=camel(), gc=False):
    """Base class of all headers."""

    is_short: ClassVar[bool] = False  # True if no field can be long


class NoHeader(Header):
    """The header of requests and responses without extension fields."""


class WrittenHeader(Header):
    """A header of any kind, as it is written."""

    is_short: ClassVar[bool] = True
    fields: bytes


H = TypeVar("H", bound=Header)

Writer = Callable[[Any], msgspec.Raw]

# Dicts instead of a cached function: each saves 0.1 us per message (bench/wire.py).
_decoders: dict[type[Header], Callable[[msgspec.Raw], Any]] = {}
_writers: dict[type[Header], Writer] = {}
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}")


def read_header(command: Command, shape: type[H]) -> H:
    """The typed header of a command. Raises BadHeader, which names the field that does not fit."""
    decode = _decoders.get(shape)
    if decode is None:
        if _has_booleans(shape):
            return _read_leniently(command, shape)
        decode = _decoders[shape] = msgspec.json.Decoder(shape, strict=False).decode
    try:
        header: H = decode(command.fields)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_leniently(command, shape)
    return header


def read_headers(commands: Sequence[Command], shape: type[H]) -> list[H]:
    """`read_header` of several commands; saves 0.2 us per command."""
    decode = _decoders.get(shape)
    if decode is not None:
        try:
            return [decode(command.fields) for command in commands]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    return [read_header(command, shape) for command in commands]


def _read_leniently(command: Command, shape: type[H]) -> H:
    """Read fields of clients that send numbers instead of text, null, or no fields.

    Numbers and booleans are read as in Java: `+1` and `007` are numbers, and a boolean is true only
    if its text is `true` in any case.
    """
    found = command.ext_fields
    for name, kind in _kinds_of(shape).items():
        text = found.get(name)
        if text is None:
            continue
        if kind is bool:
            found[name] = "true" if is_true(text) else "false"
        elif _NUMBER.fullmatch(text):
            found[name] = str(int(text))
    try:
        return msgspec.convert(found, shape, strict=False)
    except msgspec.ValidationError as error:
        raise BadHeader(f"{shape.__name__}: {error}") from error


def is_true(value: bool | str) -> bool:
    """A boolean field as Java reads it, for fields of type `bool | str`, which are fast to read."""
    return value is True or (type(value) is str and value.lower() == "true")


@cache
def _kinds_of(shape: type[Header]) -> dict[str, type]:
    """The wire names of the number and boolean fields."""
    kinds: dict[str, type] = {}
    for field in type_info(shape).fields:  # type: ignore[attr-defined]
        found = field.type.types if isinstance(field.type, UnionType) else (field.type,)
        if any(isinstance(each, IntType) for each in found):
            kinds[field.encode_name] = int
        elif any(isinstance(each, BoolType) for each in found):
            kinds[field.encode_name] = bool
    return kinds


@cache
def _has_booleans(shape: type[Header]) -> bool:
    """Does the header have bool fields? msgspec reads "1" as true, unlike Java."""
    return any(field.type in (bool, bool | None) for field in msgspec.structs.fields(shape))


def write_header(header: Header | None) -> msgspec.Raw:
    """The extension fields of a header as JSON; all values are strings, as all clients expect."""
    if header is None:
        return NO_FIELDS
    write = _writers.get(type(header)) or writer_of(type(header))
    return write(header)


def written_by(shape: type[Header], write: Writer) -> None:
    """Register a faster writer, which writes the same bytes, for a frequent header."""
    _writers[shape] = write


written_by(WrittenHeader, lambda header: msgspec.Raw(header.fields))


def write_fields(fields: Mapping[str, str]) -> msgspec.Raw:
    """Extension fields as JSON, from strings."""
    return msgspec.Raw(_encode(fields)) if fields else NO_FIELDS


_encode = msgspec.json.encode


def writer_of(shape: type[Header]) -> Writer:
    """The generic writer of a header class; built at the first use."""
    write: Writer
    if not shape.__struct_fields__:
        write = _write_nothing
    elif all(_is_number(field.type) for field in msgspec.structs.fields(shape)):
        write = number_writer(shape)
    else:
        write = text_writer(shape)
    _writers[shape] = write
    return write


def _write_nothing(header: Header) -> msgspec.Raw:
    return NO_FIELDS


def number_writer(shape: type[Header]) -> Writer:
    """A writer for headers with only integers: 0.7 us for a pull reply, instead of 1.5."""
    template = _encode(dict.fromkeys(shape.__struct_encode_fields__, "%d"))
    values_of = _values_of(shape)
    return lambda header: msgspec.Raw(template % values_of(header))


def text_writer(shape: type[Header]) -> Writer:
    """A writer that uses a struct with the same wire names and only text fields.

    It takes 1.1 us for a send reply; with a dict it would take 2.0 (bench/wire.py).
    """
    names, wires = shape.__struct_fields__, shape.__struct_encode_fields__
    twin = msgspec.defstruct(
        f"{shape.__name__}Texts",
        [(name, str | msgspec.UnsetType, msgspec.UNSET) for name in names],
        rename=dict(zip(names, wires, strict=True)),
        gc=False,
    )
    values_of = _values_of(shape)

    def write(header: Header) -> msgspec.Raw:
        texts = [
            value
            if (kind := type(value)) is str
            else str(value)
            if kind is int
            else msgspec.UNSET
            if value is None
            else java_text(value)
            for value in values_of(header)
        ]
        return msgspec.Raw(_encode(twin(*texts)))

    return write


def _is_number(kind: Any) -> bool:
    """Is the type an int, with or without bounds?"""
    return getattr(kind, "__origin__", kind) is int


def _values_of(shape: type[Header]) -> Callable[[Header], tuple[Any, ...]]:
    """A function that returns the values as a tuple, also of a single field."""
    first, *rest = shape.__struct_fields__
    if rest:
        return attrgetter(first, *rest)
    return lambda header: (getattr(header, first),)
