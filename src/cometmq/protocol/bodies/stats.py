"""Bodies with statistics of queues, groups and topics."""

from cometmq.protocol.bodies.heartbeat import Subscription
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.java.fastjson import Body
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.limits import Int32, Int64


class ConsumedOffset(Body):
    """The offset of a group in a queue, and the end of the queue."""

    broker_offset: Int64 = 0
    consumer_offset: Int64 = 0
    last_timestamp: Int64 = 0


class ConsumeStats(Body):
    """The response body of GET_CONSUME_STATS."""

    consume_tps: float = 0.0
    offset_table: dict[MessageQueue, ConsumedOffset] = {}


class ConsumeStatsList(Body):
    """The response body of GET_BROKER_CONSUME_STATS: one map per group, to its topics."""

    broker_addr: str | None = None
    consume_stats_list: list[dict[str, list[ConsumeStats]]] = []
    total_diff: Int64 = 0


class TopicOffset(Body):
    """The first and last offset of a queue."""

    last_update_timestamp: Int64 = 0
    max_offset: Int64 = 0
    min_offset: Int64 = 0


class TopicStats(Body):
    """The response body of GET_TOPIC_STATS_INFO."""

    offset_table: dict[MessageQueue, TopicOffset] = {}


class StatsItem(Body):
    """One period of one statistic."""

    avgpt: float = 0.0
    sum: Int64 = 0
    tps: float = 0.0


class BrokerStats(Body):
    """The response body of VIEW_BROKER_STATS_DATA."""

    stats_day: StatsItem | None = None
    stats_hour: StatsItem | None = None
    stats_minute: StatsItem | None = None


_TIME_SPAN = camel(
    consume_ms="consumeTimeStamp",
    consume_text="consumeTimeStampStr",
    max_ms="maxTimeStamp",
    max_text="maxTimeStampStr",
    min_ms="minTimeStamp",
    min_text="minTimeStampStr",
)


class QueueTimeSpan(Body, kw_only=True, rename=_TIME_SPAN):
    """The time range of the messages of a queue, and the time at a group's offset.

    The texts are times in the time zone of the broker.
    """

    consume_ms: Int64 = 0
    consume_text: str | None = None
    delay_time: Int64 = 0
    max_ms: Int64 = 0
    max_text: str | None = None
    message_queue: MessageQueue
    min_ms: Int64 = 0
    min_text: str | None = None


class QueueTimeSpans(Body):
    """The response body of QUERY_CONSUME_TIME_SPAN."""

    consume_time_span_set: list[QueueTimeSpan] = []


class QueueUnit(Body, rename=camel(evaluated="eval", message="msg")):
    """An entry of a consume queue, and whether the filter of a group matches."""

    bit_map: str | None = None
    evaluated: bool = False
    extend_data_json: str | None = None
    message: str | None = None
    physic_offset: Int64 = 0
    physic_size: Int32 = 0
    tags_code: Int64 = 0


class QueueUnits(Body):
    """The response body of QUERY_CONSUME_QUEUE."""

    filter_data: str | None = None
    max_queue_index: Int64 = 0
    min_queue_index: Int64 = 0
    queue_data: list[QueueUnit] | None = None
    subscription_data: Subscription | None = None
