"""A command, which is a request or a response, and its two header codecs.

    JSON    {"code":..,"extFields":{..},"flag":..,"language":..,"opaque":..,"version":..}
    binary  | code 2 | language 1 | version 2 | opaque 4 | flag 4 | remark size 4 | remark |
            | fields size 4 | fields |    a field: | name size 2 | name | value size 4 | value |

A command stores its extension fields as the JSON text that was received. Decoding that text
directly into a typed header takes 1.4 us for a send; with a dict in between, 2.5 (bench/wire.py).
"""

import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum

import msgspec

from cometmq.errors import BadHeader, Malformed, TooLarge
from cometmq.protocol.codes import LANGUAGE, LANGUAGE_NUMBERS, LANGUAGE_UNKNOWN, LANGUAGES, VERSION
from cometmq.protocol.flags import CommandFlag
from cometmq.protocol.java.values import java_text
from cometmq.protocol.limits import HEADER_FIELDS_MAX, Int32

NO_FIELDS = msgspec.Raw(b"null")
_RESPONSE = int(CommandFlag.RESPONSE)  # plain ints: `&` of an IntFlag takes 0.3 us
_ONEWAY = int(CommandFlag.ONEWAY)


class Codec(IntEnum):
    """The format of a header. A response has the format of its request."""

    JSON = 0
    BINARY = 1


# `body` and `codec` belong to the frame: these names keep a header from setting them.
_WIRE_NAMES = {"fields": "extFields", "body": "#body", "codec": "#codec"}


class Command(msgspec.Struct, kw_only=True, rename=_WIRE_NAMES, gc=False):
    """A request or a response."""

    code: Int32
    opaque: Int32 = 0
    flag: Int32 = 0
    language: str = LANGUAGE_UNKNOWN
    version: Int32 = 0
    remark: str | None = None
    fields: msgspec.Raw = NO_FIELDS
    body: bytes = b""
    codec: Codec = Codec.JSON

    @property
    def is_response(self) -> bool:
        """Is this the response to the request with the same opaque?"""
        return self.flag & _RESPONSE != 0

    @property
    def is_oneway(self) -> bool:
        """Does the sender expect no response?"""
        return self.flag & _ONEWAY != 0

    @property
    def ext_fields(self) -> dict[str, str]:
        """The extension fields as strings; numbers and booleans of some clients are converted."""
        try:
            found = _read_fields(self.fields)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise BadHeader(f"extFields: {error}") from error
        return {name: java_text(item) for name, item in (found or {}).items() if item is not None}


_read_fields = msgspec.json.Decoder(dict[str, str | bool | int | float | None] | None).decode


def response_to(
    request: Command, code: int, fields: msgspec.Raw = NO_FIELDS, remark: str | None = None
) -> Command:
    """The response to a request."""
    return Command(
        code=code,
        opaque=request.opaque,
        flag=_RESPONSE,
        language=LANGUAGE,
        version=VERSION,
        remark=remark,
        fields=fields,
        codec=request.codec,
    )


# JSON ------------------------------------------------------------------------------------------

read_json = msgspec.json.Decoder(Command, strict=False).decode  # raises one of UNREADABLE
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_write_json = msgspec.json.encode


def decode_json(header: bytes) -> Command:
    """Decode a JSON header."""
    try:
        return read_json(header)
    except UNREADABLE as error:
        raise unreadable(error) from error


def unreadable(error: Exception) -> Malformed:
    """The Malformed error for an undecodable JSON header."""
    if isinstance(error, RecursionError):
        return Malformed("header is nested too deeply")
    return Malformed(f"header: {error}")


def encode_json(command: Command) -> bytes:
    """The JSON header, with its keys in RocketMQ's order."""
    fields, remark, language = command.fields, command.remark, command.language
    return _JSON % (
        command.code,
        b"" if fields is NO_FIELDS else b',"extFields":%b' % fields,
        command.flag,
        _OUR_LANGUAGE if language is LANGUAGE else _write_json(language),
        command.opaque,
        b"" if remark is None else b',"remark":%b' % _write_json(remark),
        command.version,
    )


_JSON = (
    b'{"code":%d%b,"flag":%d,"language":%b,"opaque":%d%b,'
    b'"serializeTypeCurrentRPC":"JSON","version":%d}'
)
_OUR_LANGUAGE = _write_json(LANGUAGE)


# Binary ----------------------------------------------------------------------------------------

_HEAD = struct.Struct(">hbhii")
_SIZE = struct.Struct(">i")
_NAME_SIZE = struct.Struct(">h")
assert _HEAD.size == 13


def decode_binary(header: bytes) -> Command:
    """Decode a binary header, which must have no extra bytes."""
    try:
        code, language, version, opaque, flag = _HEAD.unpack_from(header)
        remark, at = _sized(header, _HEAD.size, _SIZE)
        fields, at = _sized(header, at, _SIZE)
        texts = dict(_binary_fields(fields))
        remark_text = remark.decode() if remark else None
    except (struct.error, UnicodeDecodeError) as error:
        raise Malformed(f"binary header: {error}") from error
    if at != len(header):
        raise Malformed(f"{len(header) - at} extra bytes in a binary header")
    return Command(
        code=code,
        opaque=opaque,
        flag=flag,
        language=LANGUAGES[language] if 0 <= language < len(LANGUAGES) else LANGUAGE_UNKNOWN,
        version=version,
        remark=remark_text,
        fields=msgspec.Raw(_write_json(texts)) if texts else NO_FIELDS,
        codec=Codec.BINARY,
    )


def encode_binary(command: Command) -> bytes:
    """The binary header. Raises Malformed if the code, the version or a name exceeds a short."""
    remark = (command.remark or "").encode()
    language = LANGUAGE_NUMBERS.get(command.language, LANGUAGE_NUMBERS[LANGUAGE_UNKNOWN])
    try:
        head = _HEAD.pack(command.code, language, command.version, command.opaque, command.flag)
        fields = _pack_fields(command.ext_fields)
    except struct.error as error:
        raise TooLarge(f"a number does not fit a binary header: {error}") from error
    return b"".join((head, _SIZE.pack(len(remark)), remark, _SIZE.pack(len(fields)), fields))


def _sized(data: bytes, at: int, size: struct.Struct) -> tuple[bytes, int]:
    """The bytes whose size is at `at`, and the position after them."""
    (length,) = size.unpack_from(data, at)
    start = at + size.size
    if not 0 <= length <= len(data) - start:
        raise Malformed(
            f"a part of {length} bytes with {len(data) - start} bytes left in the header"
        )
    return data[start : start + length], start + length


def _binary_fields(data: bytes) -> Iterator[tuple[str, str]]:
    at = count = 0
    while at < len(data):
        count += 1
        if count > HEADER_FIELDS_MAX:
            raise Malformed(f"more than {HEADER_FIELDS_MAX} fields in a header")
        name, at = _sized(data, at, _NAME_SIZE)
        value, at = _sized(data, at, _SIZE)
        yield name.decode(), value.decode()


def _pack_fields(fields: Mapping[str, str]) -> bytes:
    parts: list[bytes] = []
    for name, value in fields.items():
        packed_name, packed_value = name.encode(), value.encode()
        parts += (_NAME_SIZE.pack(len(packed_name)), packed_name)
        parts += (_SIZE.pack(len(packed_value)), packed_value)
    return b"".join(parts)
