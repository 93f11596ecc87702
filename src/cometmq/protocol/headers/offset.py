"""Consumed offsets, bounds of queues, offsets by time."""

from cometmq.protocol.headers.base import Header
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.limits import Int32, Int64


class QueueHeader(Header, rename=camel(broker_name="bname")):
    """GET_MAX_OFFSET, GET_MIN_OFFSET and GET_EARLIEST_MSG_STORETIME."""

    topic: str
    queue_id: Int32
    broker_name: str | None = None


class SearchOffsetHeader(Header, rename=camel(broker_name="bname")):
    """SEARCH_OFFSET_BY_TIMESTAMP."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    broker_name: str | None = None


class QueryOffsetHeader(Header, rename=camel(broker_name="bname")):
    """QUERY_CONSUMER_OFFSET."""

    consumer_group: str
    topic: str
    queue_id: Int32
    broker_name: str | None = None


class UpdateOffsetHeader(Header, rename=camel(broker_name="bname")):
    """UPDATE_CONSUMER_OFFSET."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64
    broker_name: str | None = None


class OffsetReplyHeader(Header):
    """Of all questions for an offset."""

    offset: Int64


class StoreTimeReplyHeader(Header):
    """Of GET_EARLIEST_MSG_STORETIME."""

    timestamp: Int64
