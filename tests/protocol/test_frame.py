"""Frames that Apache's classes wrote, and frames that nobody should write."""

import struct

import msgspec
import pytest

from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.command import NO_FIELDS, Codec, Command, response_to
from cometmq.protocol.flags import CommandFlag
from cometmq.protocol.frame import FrameDecoder, encode_frame, encode_head, reply_head, reply_heads
from cometmq.protocol.limits import FRAME_SIZE_MAX, HEADER_SIZE_MAX
from protocol.golden import bytes_of, each, entries


def decode(data: bytes) -> Command:
    decoder = FrameDecoder()
    (command,) = decoder.feed(data)
    assert decoder.pending_size == 0
    return command


@each("frames")
def test_values(entry):
    command, value = decode(bytes_of(entry)), entry["value"]
    binary = value["serializeType"] == "ROCKETMQ"
    assert command.codec is (Codec.BINARY if binary else Codec.JSON)
    assert command.code == value["code"]
    assert command.language == value["language"]
    assert command.version == value["version"]
    assert command.opaque == value["opaque"]
    assert command.flag == value["flag"]
    assert command.ext_fields == (value["extFields"] or {})
    assert command.body.hex() == (value["bodyHex"] or "")
    # A binary header does not tell an empty remark from none.
    assert command.remark == (value["remark"] or None if binary else value["remark"])


@each("frames")
def test_bytes(entry):
    assert encode_frame(decode(bytes_of(entry))).hex() == entry["hex"]


@each("frames")
def test_both_codecs_have_the_same_content(entry):
    command = decode(bytes_of(entry))
    command.codec = Codec(1 - command.codec)
    again = decode(encode_frame(command))
    assert again.ext_fields == command.ext_fields
    assert (again.code, again.opaque, again.flag, again.language, again.version, again.body) == (
        command.code, command.opaque, command.flag, command.language, command.version, command.body
    )  # fmt: skip
    assert (again.remark or None) == (command.remark or None)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("remark", [None, "", 'no "route"\n\u4e2d'])
@pytest.mark.parametrize("fields", [NO_FIELDS, msgspec.Raw(b'{"msgId":"7F"}')])
def test_the_fast_reply_is_the_plain_one(codec, remark, fields):
    request = Command(code=310, opaque=-5, codec=codec)
    response = response_to(request, 17, fields, remark)
    assert reply_head(request, 17, fields, remark, 1000) == encode_head(response, 1000)


def test_replies_of_several_are_those_of_each():
    requests = [Command(code=310, opaque=n, codec=Codec(n % 2)) for n in range(4)]
    requests[1].flag = requests[2].flag = CommandFlag.ONEWAY.value
    fields = [b'{"msgId":"%d"}' % n for n in range(4)]
    assert reply_heads(requests, 11, fields) == [
        reply_head(requests[n], 11, msgspec.Raw(fields[n]), None, 0) for n in (0, 3)
    ]


def test_a_reply_over_the_limit_is_refused_in_both_codecs():
    for codec in Codec:
        with pytest.raises(TooLarge):
            reply_head(Command(code=1, codec=codec), 0, NO_FIELDS, None, FRAME_SIZE_MAX)


def test_every_cut_in_two_gives_the_same_commands():
    stream = b"".join(map(bytes_of, entries("frames")[:4]))
    whole = list(FrameDecoder().feed(stream))
    assert len(whole) == 4
    for cut in range(len(stream) + 1):
        decoder = FrameDecoder()
        found = list(decoder.feed(stream[:cut]))
        assert decoder.pending_size == 0 or decoder.wanted_size > decoder.pending_size
        assert found + list(decoder.feed(stream[cut:])) == whole


def test_wanted_size():
    decoder, frame = FrameDecoder(), encode_frame(Command(code=106, body=b"x" * 1000))
    assert list(decoder.feed(frame[:5])) == []
    assert (decoder.pending_size, decoder.wanted_size) == (5, 8)
    assert list(decoder.feed(frame[5:20])) == []
    assert (decoder.pending_size, decoder.wanted_size) == (20, len(frame))
    assert len(list(decoder.feed(frame[20:] + frame[:3]))) == 1
    assert (decoder.pending_size, decoder.wanted_size) == (3, 8)


def test_good_commands_come_before_the_error():
    decoder = FrameDecoder()
    found = decoder.feed(encode_frame(Command(code=106)) + b"\xff" * 8)
    assert next(found).code == 106
    with pytest.raises(Malformed):
        next(found)


@pytest.mark.parametrize("count", [31, 32, 33, 64, 100])
@pytest.mark.parametrize("end", [b"", b"\x00\x00", b"\xff" * 8])
def test_many_commands_come_in_order_and_all_of_them_before_an_error(count, end):
    """They are decoded by the handful."""
    decoder = FrameDecoder()
    sent = b"".join(encode_frame(Command(code=106, opaque=n)) for n in range(count))
    found = decoder.feed(sent + end)
    assert [next(found).opaque for _ in range(count)] == list(range(count))
    with pytest.raises(Malformed if len(end) == 8 else StopIteration):
        next(found)
    assert decoder.pending_size == (len(end) if len(end) < 8 else 0)


@pytest.mark.parametrize(
    ("prefix", "error"),
    [
        (struct.pack(">iBBH", -1, 0, 0, 2), Malformed),
        (struct.pack(">iBBH", 3, 0, 0, 0), Malformed),  # less than the second word
        (struct.pack(">iBBH", 5, 0, 0, 2), Malformed),  # a header longer than the frame
        (struct.pack(">iBBH", 10, 2, 0, 2), Malformed),  # no such codec
        (struct.pack(">iBBH", 6, 0, 0, 2) + b"[]", Malformed),
        (struct.pack(">iBBH", 4, 0, 0, 0), Malformed),  # no header at all
        (struct.pack(">iBBH", FRAME_SIZE_MAX, 0, 0, 2), TooLarge),
        (struct.pack(">iI", HEADER_SIZE_MAX + 9, HEADER_SIZE_MAX + 1), TooLarge),
        (b"GET / HT", TooLarge),
    ],
)
def test_bad_frames_are_rejected(prefix, error):
    with pytest.raises(error):
        list(FrameDecoder().feed(prefix))


def test_the_longest_frame():
    assert FRAME_SIZE_MAX == 16_777_216, "with its own length field, as Apache's servers count"
    head = len(encode_head(Command(code=106), 0))
    body = bytes(FRAME_SIZE_MAX - head)
    assert len(encode_frame(Command(code=106, body=body))) == FRAME_SIZE_MAX
    assert decode(encode_frame(Command(code=106, body=body))).body == body
    with pytest.raises(TooLarge):
        encode_frame(Command(code=106, body=body + b"x"))


def test_a_header_that_is_too_long():
    with pytest.raises(TooLarge):
        encode_frame(Command(code=1, remark="x" * HEADER_SIZE_MAX))
