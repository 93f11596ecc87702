"""Progress, reset, clone, what runs in a consumer, direct consumption."""

from cometmq.protocol.headers.base import Header
from cometmq.protocol.limits import Int64


class ConsumeStatsHeader(Header):
    """GET_CONSUME_STATS."""

    consumer_group: str
    topic: str | None = None


class ResetOffsetHeader(Header):
    """INVOKE_BROKER_TO_RESET_OFFSET and RESET_CONSUMER_CLIENT_OFFSET."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool


class ConsumerStatusHeader(Header):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS and GET_CONSUMER_STATUS_FROM_CLIENT."""

    topic: str
    group: str
    client_addr: str | None = None


class TimeSpanHeader(Header):
    """QUERY_CONSUME_TIME_SPAN."""

    topic: str
    group: str


class RunningInfoHeader(Header):
    """GET_CONSUMER_RUNNING_INFO."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class CorrectionHeader(Header, kw_only=True):
    """QUERY_CORRECTION_OFFSET."""

    filter_groups: str | None = None
    compare_group: str
    topic: str


class ConsumeDirectlyHeader(Header):
    """CONSUME_MESSAGE_DIRECTLY."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None


class CloneOffsetHeader(Header):
    """CLONE_GROUP_OFFSET."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class BrokerConsumeStatsHeader(Header):
    """GET_BROKER_CONSUME_STATS."""

    is_order: bool
