"""The quick writer of sends and the general one give the same bytes."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from cometmq.client.send.outgoing import CODES, Outgoing, SendTemplate
from cometmq.errors import TooLarge
from cometmq.protocol.codes import LANGUAGE, VERSION
from cometmq.protocol.command import Command
from cometmq.protocol.flags import CommandFlag
from cometmq.protocol.frame import FrameDecoder, encode_frame
from cometmq.protocol.headers.base import read_header, write_header
from cometmq.protocol.headers.send import SendHeaderV2
from cometmq.protocol.java.values import java_text
from cometmq.protocol.limits import FRAME_SIZE_MAX

names = some.text("%|abcXYZ0123456789_-", min_size=1, max_size=40)
ints = some.integers(-(2**31), 2**31 - 1)


def template(group="g", topic="t", *, kind="single", unit_mode=False, queues=4, pattern="TBW102"):
    return SendTemplate(
        group,
        topic,
        default_topic=pattern,
        default_topic_queue_nums=queues,
        unit_mode=unit_mode,
        kind=kind,
    )


def outgoing(text="", body=b"x", born_ms=0, flag=0, sys_flag=0):
    return Outgoing("id", text, msgspec.json.encode(text), body, born_ms, flag, sys_flag)


@given(
    names, names, names, some.sampled_from(sorted(CODES)), some.booleans(), some.integers(1, 65535),
    some.text(max_size=60), some.binary(max_size=60), some.integers(0, 2**62), ints, ints,
    some.integers(0, 2**31 - 1), some.integers(0, 65535), some.booleans(),
)  # fmt: skip
def test_the_bytes_are_those_of_the_general_writer(
    group, topic, pattern, kind, unit_mode, queues, text, body, born_ms, flag, sys_flag, opaque,
    queue_id, oneway,
):  # fmt: skip
    quick = template(group, topic, kind=kind, unit_mode=unit_mode, queues=queues, pattern=pattern)
    sent = outgoing(text, body, born_ms, flag, sys_flag)
    general = Command(
        code=quick.code,
        opaque=opaque,
        flag=int(CommandFlag.ONEWAY) if oneway else 0,
        language=LANGUAGE,
        version=VERSION,
        fields=write_header(quick.header(queue_id, sent)),
        body=body,
    )
    frame = quick.frame(opaque, queue_id, sent, oneway=oneway)
    assert frame == encode_frame(general)
    (command,) = FrameDecoder().feed(frame)
    header = read_header(command, SendHeaderV2)
    texts = {name: java_text(getattr(header, name)) for name in ("unit_mode", "batch")}
    is_batch = kind == "batch"
    assert texts == {"unit_mode": java_text(unit_mode), "batch": java_text(is_batch)}
    assert msgspec.structs.replace(header, unit_mode=unit_mode, batch=is_batch) == SendHeaderV2(
        producer_group=group, topic=topic, default_topic=pattern, default_topic_queue_nums=queues,
        queue_id=queue_id, sys_flag=sys_flag, born_timestamp=born_ms, flag=flag, properties=text,
        reconsume_times=0, unit_mode=unit_mode, batch=is_batch,
    )  # fmt: skip


def test_what_is_no_frame_is_refused():
    with pytest.raises(TooLarge, match="smaller"):
        template().frame(1, 0, outgoing(body=bytes(FRAME_SIZE_MAX)))
