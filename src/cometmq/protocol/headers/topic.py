"""Headers of requests about topics."""

from cometmq.protocol.headers.base import Header
from cometmq.protocol.limits import Int32


class CreateTopicHeader(Header, kw_only=True):
    """The fields of a UPDATE_AND_CREATE_TOPIC request."""

    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool = False


class TopicHeader(Header):
    """The fields of DELETE_TOPIC_IN_BROKER, GET_TOPIC_STATS_INFO and QUERY_TOPIC_CONSUME_BY_WHO."""

    topic: str
