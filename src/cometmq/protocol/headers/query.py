"""Headers of queries: messages by key or offset, consume queue entries, statistics."""

from cometmq.protocol.headers.base import Header
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.limits import Int32, Int64


class QueryMessageHeader(Header, rename=camel(unique_key_query="_UNIQUE_KEY_QUERY")):
    """The fields of QUERY_MESSAGE; the last one selects a search by unique key."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    unique_key_query: bool | None = None


class QueryMessageReplyHeader(Header):
    """The fields of the response to QUERY_MESSAGE: how up to date the index is."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageHeader(Header):
    """The fields of a VIEW_MESSAGE_BY_ID request."""

    offset: Int64


class QueryConsumeQueueHeader(Header):
    """The fields of a QUERY_CONSUME_QUEUE request."""

    topic: str | None = None
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None


class ViewStatsHeader(Header):
    """The fields of a VIEW_BROKER_STATS_DATA request."""

    stats_name: str
    stats_key: str


class BrokerConfigReplyHeader(Header):
    """The fields of the response to GET_BROKER_CONFIG."""

    version: str
