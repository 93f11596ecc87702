"""Header structs to and from the extension fields of a command.

A field without a default is required. A field that is None is left out. Wire names are the camel
case of ours; where they differ, the header says so with `rename`.
"""

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar, cast, dataclass_transform

import msgspec

from cometmq.errors import BadHeader
from cometmq.protocol.command import NO_FIELDS, Command
from cometmq.protocol.spelling import camel


@dataclass_transform(frozen_default=True, kw_only_default=True)  # so that mypy sees it inherited
class Header(msgspec.Struct, frozen=True, kw_only=True, rename=camel()):
    """Base of all headers."""


class NoHeader(Header):
    """Of requests and responses without extension fields."""


H = TypeVar("H", bound=Header)


@cache
def _decoder(shape: type[Header]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape, strict=False)


def read_header(command: Command, shape: type[H]) -> H:
    """The typed header of a command, or BadHeader with the field that does not fit."""
    try:
        return cast(H, _decoder(shape).decode(command.fields))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_leniently(command, shape)


def _read_leniently(command: Command, shape: type[H]) -> H:
    """Some clients send numbers where text belongs, null, or no fields at all."""
    try:
        return msgspec.convert(command.ext_fields, shape, strict=False)
    except msgspec.ValidationError as error:
        raise BadHeader(f"{shape.__name__}: {error}") from error


def write_header(header: Header | None) -> msgspec.Raw:
    """The extension fields of a header: every value a string, as all clients expect."""
    if header is None:
        return NO_FIELDS
    fields = {
        wire: _text(value)
        for name, wire in _names(type(header))
        if (value := getattr(header, name)) is not None
    }
    return write_fields(fields)


def write_fields(fields: Mapping[str, str]) -> msgspec.Raw:
    """Extension fields that are strings already."""
    return msgspec.Raw(msgspec.json.encode(fields)) if fields else NO_FIELDS


@cache
def _names(shape: type[Header]) -> tuple[tuple[str, str], ...]:
    return tuple(zip(shape.__struct_fields__, shape.__struct_encode_fields__, strict=True))


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if type(value) is str else str(value)
