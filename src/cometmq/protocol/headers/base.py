"""Header structs to and from the extension fields of a command.

A field without a default is required. A field that is None is left out. Wire names are the camel
case of ours; where they differ, the header says so with `rename`.
"""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, TypeVar, dataclass_transform

import msgspec

from cometmq.errors import BadHeader
from cometmq.protocol.command import NO_FIELDS, Command
from cometmq.protocol.java import java_text
from cometmq.protocol.spelling import camel


@dataclass_transform(frozen_default=True, kw_only_default=True)  # so that mypy sees it inherited
class Header(msgspec.Struct, frozen=True, kw_only=True, rename=camel(), gc=False):
    """Base of all headers."""


class NoHeader(Header):
    """Of requests and responses without extension fields."""


H = TypeVar("H", bound=Header)

# Dicts in place of a cached function: each saves 0.1 us a message (bench/wire.py).
_decoders: dict[type[Header], Callable[[msgspec.Raw], Any]] = {}
_text_twins: dict[type[Header], tuple[Callable[[Header], tuple[Any, ...]], Callable[..., Any]]] = {}


def read_header(command: Command, shape: type[H]) -> H:
    """The typed header of a command, or BadHeader with the field that does not fit."""
    decode = _decoders.get(shape)
    if decode is None:
        decode = _decoders[shape] = msgspec.json.Decoder(shape, strict=False).decode
    try:
        header: H = decode(command.fields)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _read_leniently(command, shape)
    return header


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
    values_of, twin = _text_twins.get(type(header)) or _make_twin(type(header))
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
    return msgspec.Raw(_encode(twin(*texts))) if texts else NO_FIELDS


def write_fields(fields: Mapping[str, str]) -> msgspec.Raw:
    """Extension fields that are strings already."""
    return msgspec.Raw(_encode(fields)) if fields else NO_FIELDS


_encode = msgspec.json.encode


def _make_twin(
    shape: type[Header],
) -> tuple[Callable[[Header], tuple[Any, ...]], Callable[..., Any]]:
    """A struct with the same wire names whose fields are all texts: the fastest way to write them.

    With it a send's reply takes 1.1 us, by way of a dict 2.0 (bench/wire.py).
    """
    names, wires = shape.__struct_fields__, shape.__struct_encode_fields__
    twin = msgspec.defstruct(
        f"{shape.__name__}Texts",
        [(name, str | msgspec.UnsetType, msgspec.UNSET) for name in names],
        rename=dict(zip(names, wires, strict=True)),
        gc=False,
    )
    getter = attrgetter(*names) if len(names) > 1 else lambda header: _only(header, names)
    _text_twins[shape] = getter, twin
    return getter, twin


def _only(header: Header, names: tuple[str, ...]) -> tuple[Any, ...]:
    """`attrgetter` gives a bare value for one name, and takes none for none."""
    return tuple(getattr(header, name) for name in names)
