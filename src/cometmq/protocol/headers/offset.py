"""Headers of requests about offsets: consumer offsets, first and last offset, offset by time."""

from cometmq.protocol.headers.base import Header
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.limits import Int32, Int64


class QueueHeader(Header, rename=camel(broker_name="bname")):
    """The fields of GET_MAX_OFFSET, GET_MIN_OFFSET and GET_EARLIEST_MSG_STORETIME."""

    topic: str
    queue_id: Int32
    broker_name: str | None = None


class SearchOffsetHeader(Header, rename=camel(broker_name="bname")):
    """The fields of a SEARCH_OFFSET_BY_TIMESTAMP request."""

    topic: str
    queue_id: Int32
    timestamp: Int64
    broker_name: str | None = None


class QueryOffsetHeader(Header, rename=camel(broker_name="bname")):
    """The fields of a QUERY_CONSUMER_OFFSET request."""

    consumer_group: str
    topic: str
    queue_id: Int32
    broker_name: str | None = None


class UpdateOffsetHeader(Header, rename=camel(broker_name="bname")):
    """The fields of a UPDATE_CONSUMER_OFFSET request."""

    consumer_group: str
    topic: str
    queue_id: Int32
    commit_offset: Int64
    broker_name: str | None = None


class OffsetReplyHeader(Header):
    """The fields of all responses that return an offset."""

    offset: Int64


class StoreTimeReplyHeader(Header):
    """The fields of the response to GET_EARLIEST_MSG_STORETIME."""

    timestamp: Int64
