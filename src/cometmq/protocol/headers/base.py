"""Header structs to and from the extension fields of a command.

A field without a default is required. A field that is None is left out. Wire names are the camel
case of ours; where they differ, the header says so with `rename`.
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


@dataclass_transform(frozen_default=True, kw_only_default=True)  # so that mypy sees it inherited
class Header(msgspec.Struct, frozen=True, kw_only=True, rename=camel(), gc=False):
    """Base of all headers."""

    is_short: ClassVar[bool] = False  # no field of it can be long


class NoHeader(Header):
    """Of requests and responses without extension fields."""


class WrittenHeader(Header):
    """A header of any kind, as it is written."""

    is_short: ClassVar[bool] = True
    fields: bytes


H = TypeVar("H", bound=Header)

Writer = Callable[[Any], msgspec.Raw]

# Dicts in place of a cached function: each saves 0.1 us a message (bench/wire.py).
_decoders: dict[type[Header], Callable[[msgspec.Raw], Any]] = {}
_writers: dict[type[Header], Writer] = {}
_NUMBER = re.compile(r"[+-]?[0-9]{1,40}")


def read_header(command: Command, shape: type[H]) -> H:
    """The typed header of a command, or BadHeader with the field that does not fit."""
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
    """As `read_header` of each, without a call for each: 0.2 us."""
    decode = _decoders.get(shape)
    if decode is not None:
        try:
            return [decode(command.fields) for command in commands]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    return [read_header(command, shape) for command in commands]


def _read_leniently(command: Command, shape: type[H]) -> H:
    """Some clients send numbers where text belongs, null, or no fields at all.

    Numbers and booleans are read as Java reads them: `+1` and `007` are numbers, and a boolean is
    true if it says `true` in any case, else false.
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
    """A boolean field as Java reads it. Fields that are read often have the type `bool | str`."""
    return value is True or (type(value) is str and value.lower() == "true")


@cache
def _kinds_of(shape: type[Header]) -> dict[str, type]:
    """The wire names of its numbers and booleans."""
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
    """Fields of type bool alone: msgspec reads "1" as true, and Java does not."""
    return any(field.type in (bool, bool | None) for field in msgspec.structs.fields(shape))


def write_header(header: Header | None) -> msgspec.Raw:
    """The extension fields of a header: every value a string, as all clients expect."""
    if header is None:
        return NO_FIELDS
    write = _writers.get(type(header)) or writer_of(type(header))
    return write(header)


def written_by(shape: type[Header], write: Writer) -> None:
    """Give a header that is written very often a writer of its own: the same bytes, sooner."""
    _writers[shape] = write


written_by(WrittenHeader, lambda header: msgspec.Raw(header.fields))


def write_fields(fields: Mapping[str, str]) -> msgspec.Raw:
    """Extension fields that are strings already."""
    return msgspec.Raw(_encode(fields)) if fields else NO_FIELDS


_encode = msgspec.json.encode


def writer_of(shape: type[Header]) -> Writer:
    """The general way to write a header; the first time, what it needs is made."""
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
    """For a header of whole numbers only: 0.7 us for a pull's reply, by way of texts 1.5."""
    template = _encode(dict.fromkeys(shape.__struct_encode_fields__, "%d"))
    values_of = _values_of(shape)
    return lambda header: msgspec.Raw(template % values_of(header))


def text_writer(shape: type[Header]) -> Writer:
    """By way of a struct with the same wire names whose fields are all texts.

    With it a send's reply takes 1.1 us, by way of a dict 2.0 (bench/wire.py).
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
    """An int, or one with bounds."""
    return getattr(kind, "__origin__", kind) is int


def _values_of(shape: type[Header]) -> Callable[[Header], tuple[Any, ...]]:
    """`attrgetter` gives a bare value for one name."""
    first, *rest = shape.__struct_fields__
    if rest:
        return attrgetter(first, *rest)
    return lambda header: (getattr(header, first),)
