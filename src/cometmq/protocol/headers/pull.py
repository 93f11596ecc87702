"""The headers of PULL_MESSAGE and its response."""

from typing import ClassVar

from cometmq.protocol.headers.base import Header
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.limits import Int32, Int64


class PullHeader(Header, kw_only=True, rename=camel(broker_name="bname")):
    """The fields of a PULL_MESSAGE request."""

    consumer_group: str
    topic: str
    queue_id: Int32
    queue_offset: Int64
    max_msg_nums: Int32
    sys_flag: Int32
    commit_offset: Int64
    suspend_timeout_millis: Int64 = 0
    subscription: str | None = None
    sub_version: Int64 = 0
    expression_type: str | None = None
    broker_name: str | None = None


class PullReplyHeader(Header):
    """The offset of the next pull, and the broker id to send it to."""

    is_short: ClassVar[bool] = True
    suggest_which_broker_id: Int64
    next_begin_offset: Int64
    min_offset: Int64
    max_offset: Int64
