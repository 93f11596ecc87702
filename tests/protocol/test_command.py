"""A command and its two header codecs, where the golden frames do not reach."""

import json
import struct

import msgspec
import pytest

from cometmq.errors import BadHeader, Malformed, TooLarge
from cometmq.protocol.codes import VERSION
from cometmq.protocol.command import (
    NO_FIELDS,
    Codec,
    Command,
    decode_binary,
    decode_json,
    encode_binary,
    encode_json,
    response_to,
)
from cometmq.protocol.limits import HEADER_FIELDS_MAX


def test_an_answer_takes_opaque_and_codec_of_its_request():
    request = Command(code=105, opaque=7, codec=Codec.BINARY, language="JAVA", version=1)
    response = response_to(request, 17, remark="no")
    assert response.is_response and not response.is_oneway
    assert (response.code, response.opaque, response.codec) == (17, 7, Codec.BINARY)
    assert (response.language, response.version) == ("PYTHON", VERSION)
    assert (response.remark, response.fields) == ("no", NO_FIELDS)


def test_flags():
    assert Command(code=0, flag=1).is_response and not Command(code=0, flag=1).is_oneway
    assert Command(code=0, flag=3).is_response and Command(code=0, flag=3).is_oneway


def test_a_header_with_little_in_it():
    command = decode_json(b'{"code":105}\n')
    assert command == Command(code=105)
    assert (command.remark, command.ext_fields, command.language) == (None, {}, "OTHER")


def test_a_header_with_nulls():
    assert decode_json(b'{"code":1,"remark":null,"extFields":null}').ext_fields == {}


def test_numbers_and_booleans_become_text():
    command = decode_json(b'{"code":1,"extFields":{"a":1,"b":true,"c":false,"d":null,"e":1.5}}')
    assert command.ext_fields == {"a": "1", "b": "true", "c": "false", "e": "1.5"}


def test_an_unknown_language_keeps_its_name_in_json_only():
    command = decode_json(b'{"code":1,"language":"KOTLIN"}')
    assert command.language == "KOTLIN"
    assert decode_json(encode_json(command)).language == "KOTLIN"
    assert decode_binary(encode_binary(command)).language == "OTHER"


def test_an_unknown_language_number():
    header = struct.pack(">hbhiiii", 1, 99, 2, 3, 0, 0, 0)
    assert decode_binary(header).language == "OTHER"
    assert decode_binary(struct.pack(">hbhiiii", 1, -1, 2, 3, 0, 0, 0)).language == "OTHER"


def test_a_header_cannot_set_what_belongs_to_the_frame():
    """Neither the codec in which its answer is written, nor a body, of whatever type."""
    command = decode_json(b'{"code":1,"codec":1,"body":{"a":null}}')
    assert (command.codec, command.body) == (Codec.JSON, b"")


def test_json_is_json():
    command = Command(code=1, remark='a "b"\n\x01', fields=msgspec.Raw(b'{"k":"v"}'), opaque=-1)
    assert json.loads(encode_json(command)) == {
        "code": 1,
        "extFields": {"k": "v"},
        "flag": 0,
        "language": "OTHER",
        "opaque": -1,
        "remark": 'a "b"\n\x01',
        "serializeTypeCurrentRPC": "JSON",
        "version": 0,
    }


@pytest.mark.parametrize(
    "header",
    [
        b"", b"{", b"[]", b"null", b"{}", b'{"code":"x"}', b'{"code":2147483648}',
        b'{"code":1,"remark":5}', b'{"code":1,"language":"\xff"}', b'{"code":1}}',
        b'{"code":1,"extFields":}', b'{"code":1,"extFields":' + b"[" * 100_000,
    ],
)  # fmt: skip
def test_bad_json_headers_are_rejected(header):
    with pytest.raises(Malformed):
        decode_json(header)


@pytest.mark.parametrize("fields", [b"[]", b'"a"', b'{"a":[]}', b'{"a":{"b":1}}', b'{"a":"\xff"}'])
def test_what_are_no_fields(fields):
    with pytest.raises(BadHeader):
        _ = Command(code=1, fields=msgspec.Raw(fields)).ext_fields


HEAD = struct.pack(">hbhii", 105, 0, 407, 1, 0)


@pytest.mark.parametrize(
    "header",
    [
        b"",
        HEAD,
        HEAD + b"\0\0\0\0",
        HEAD + b"\0\0\0\0\0\0\0\0\0",  # one byte too many
        HEAD + b"\xff\xff\xff\xff\0\0\0\0",  # a remark of -1 bytes
        HEAD + b"\0\0\0\1\xff\0\0\0\0",  # not UTF-8
        HEAD + b"\0\0\0\0\0\0\0\1\0",  # half a name size
        HEAD + b"\0\0\0\0\0\0\0\3\0\5k",  # a name longer than the header
        HEAD + b"\0\0\0\0\0\0\0\2\xff\xff",  # a name of -1 bytes
    ],
)
def test_bad_binary_headers_are_rejected(header):
    with pytest.raises(Malformed):
        decode_binary(header)


@pytest.mark.parametrize("sizes", [b"\xff\xff\xff\xfc", b"\0\0\0\0\xff\xff\xff\xfc"])
def test_negative_sizes_are_rejected(sizes):
    with pytest.raises(Malformed, match="part of -4 bytes"):
        decode_binary(HEAD + sizes)


def test_too_many_binary_fields():
    fields = b"\0\0\0\0\0\0" * (HEADER_FIELDS_MAX + 1)
    with pytest.raises(Malformed, match="fields"):
        decode_binary(HEAD + b"\0\0\0\0" + struct.pack(">i", len(fields)) + fields)


@pytest.mark.parametrize(
    "command",
    [
        Command(code=32768),
        Command(code=1, version=-32769),
        Command(code=1, fields=msgspec.Raw(b'{"%b":"v"}' % (b"n" * 32768))),
    ],
)
def test_what_a_binary_header_cannot_hold(command):
    with pytest.raises(TooLarge):
        encode_binary(command)
