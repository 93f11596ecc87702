"""Send, send v2, batch, reply, send back."""

from typing import cast

import msgspec

from cometmq.protocol.headers.base import Header
from cometmq.protocol.limits import Int32, Int64
from cometmq.protocol.spelling import camel


class SendHeader(Header, rename=camel(broker_name="bname")):
    """SEND_MESSAGE spells these names in full; SEND_MESSAGE_V2 calls them a to n, in this order."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    batch: bool = False
    broker_name: str | None = None


# A subclass, so that a handler of SendHeader takes both.
SendHeaderV2 = cast(
    type[SendHeader],
    msgspec.defstruct(
        "SendHeaderV2",
        [
            (field.name, field.type)
            if field.default is msgspec.NODEFAULT
            else (field.name, field.type, field.default)
            for field in msgspec.structs.fields(SendHeader)
        ],
        bases=(SendHeader,),
        rename=dict(zip(SendHeader.__struct_fields__, "abcdefghijklmn", strict=True)),
        frozen=True,
        kw_only=True,
    ),
)


class SendReplyHeader(Header):
    """Of all sends. The id of a batch is a list with commas."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None


class SendBackHeader(Header, rename=camel(broker_name="bname")):
    """CONSUMER_SEND_MSG_BACK."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool = False
    max_reconsume_times: Int32 | None = None
    broker_name: str | None = None


class PushReplyHeader(Header, kw_only=True):
    """PUSH_REPLY_MESSAGE_TO_CLIENT."""

    producer_group: str
    topic: str
    default_topic: str
    default_topic_queue_nums: Int32
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool = False
    born_host: str
    store_host: str
    store_timestamp: Int64
