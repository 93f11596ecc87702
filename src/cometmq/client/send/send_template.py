"""Frames of sends: of one producer to one topic they differ in a few places, which are filled in.

The bytes are those of the general writer, and a test holds the two together. It takes a fifth of
the time that the way by a header and a command does.
"""

import struct

from cometmq.client.send.outgoing import Outgoing
from cometmq.errors import TooLarge
from cometmq.protocol.codes import LANGUAGE, VERSION, RequestCode
from cometmq.protocol.command import Command, encode_json
from cometmq.protocol.flags import CommandFlag
from cometmq.protocol.headers.base import write_header
from cometmq.protocol.headers.send import SendHeader, SendHeaderV2
from cometmq.protocol.limits import FRAME_SIZE_MAX

_ONEWAY = int(CommandFlag.ONEWAY)
_pack_prefix = struct.Struct(">iI").pack  # as in protocol/frame.py
_SIZE_MAX = FRAME_SIZE_MAX - 4

# What an empty send has in the places that are filled in. No name may hold a quote, so that
# nothing else can look like one of these.
_PLACES = (
    (b'"e":"0"', b'"e":"%d"'),  # queue id
    (b'"f":"0"', b'"f":"%d"'),  # sys flag
    (b'"g":"0"', b'"g":"%d"'),  # born timestamp
    (b'"h":"0"', b'"h":"%d"'),  # flag of the message
    (b'"i":""', b'"i":%b'),  # properties, with their quotes
    (b'"flag":0', b'"flag":%d'),  # of the command
    (b'"opaque":0', b'"opaque":%d'),
)


class SendTemplate:
    """All sends of one kind of one producer to one topic."""

    __slots__ = ("_template", "_without", "code")

    def __init__(
        self,
        group: str,
        topic: str,
        *,
        default_topic: str,
        default_topic_queue_nums: int,
        unit_mode: bool,
        code: RequestCode = RequestCode.SEND_MESSAGE_V2,
    ) -> None:
        self.code = code
        self._without = SendHeaderV2(
            producer_group=group,
            topic=topic,
            default_topic=default_topic,
            default_topic_queue_nums=default_topic_queue_nums,
            queue_id=0,
            sys_flag=0,
            born_timestamp=0,
            flag=0,
            properties="",
            reconsume_times=0,
            unit_mode=unit_mode,
            batch=code == RequestCode.SEND_BATCH_MESSAGE,
        )
        empty = Command(
            code=self.code, language=LANGUAGE, version=VERSION, fields=write_header(self._without)
        )
        template = encode_json(empty).replace(b"%", b"%%")
        for place, hole in _PLACES:
            assert template.count(place) == 1, place
            template = template.replace(place, hole)
        self._template = template

    def frame(self, opaque: int, queue_id: int, sent: Outgoing, *, oneway: bool = False) -> bytes:
        """The whole frame of a request; TooLarge if it would be none."""
        header = self._template % (
            queue_id,
            sent.sys_flag,
            sent.born_ms,
            sent.flag,
            sent.properties_json,
            _ONEWAY if oneway else 0,
            opaque,
        )
        size = 4 + len(header) + len(sent.body)
        if size > _SIZE_MAX:
            raise TooLarge(f"a frame of {size} bytes: make the message smaller")
        return b"".join((_pack_prefix(size, len(header)), header, sent.body))

    def header(self, queue_id: int, sent: Outgoing) -> SendHeader:
        """For the general writer: of requests that are signed."""
        empty = self._without
        return SendHeaderV2(
            producer_group=empty.producer_group,
            topic=empty.topic,
            default_topic=empty.default_topic,
            default_topic_queue_nums=empty.default_topic_queue_nums,
            queue_id=queue_id,
            sys_flag=sent.sys_flag,
            born_timestamp=sent.born_ms,
            flag=sent.flag,
            properties=sent.properties_text,
            reconsume_times=0,
            unit_mode=empty.unit_mode,
            batch=empty.batch,
        )
