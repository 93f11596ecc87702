"""Messages by key, by place; entries of a consume queue; statistics by name."""

from cometmq.protocol.headers.base import Header
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.limits import Int32, Int64


class QueryMessageHeader(Header, rename=camel(unique_key_query="_UNIQUE_KEY_QUERY")):
    """QUERY_MESSAGE; the last field tells a search by unique key."""

    topic: str
    key: str
    max_num: Int32
    begin_timestamp: Int64
    end_timestamp: Int64
    unique_key_query: bool | None = None


class QueryMessageReplyHeader(Header):
    """How fresh the index is."""

    index_last_update_timestamp: Int64
    index_last_update_phyoffset: Int64


class ViewMessageHeader(Header):
    """VIEW_MESSAGE_BY_ID."""

    offset: Int64


class QueryConsumeQueueHeader(Header):
    """QUERY_CONSUME_QUEUE."""

    topic: str | None = None
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None


class ViewStatsHeader(Header):
    """VIEW_BROKER_STATS_DATA."""

    stats_name: str
    stats_key: str


class BrokerConfigReplyHeader(Header):
    """Of GET_BROKER_CONFIG."""

    version: str
