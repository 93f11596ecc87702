"""Headers of requests about consumers: lag, offset reset and clone, state, direct consumption."""

from cometmq.protocol.headers.base import Header
from cometmq.protocol.limits import Int64


class ConsumeStatsHeader(Header):
    """The fields of a GET_CONSUME_STATS request."""

    consumer_group: str
    topic: str | None = None


class ResetOffsetHeader(Header):
    """The fields of INVOKE_BROKER_TO_RESET_OFFSET and RESET_CONSUMER_CLIENT_OFFSET."""

    topic: str
    group: str
    timestamp: Int64
    is_force: bool


class ConsumerStatusHeader(Header):
    """The fields of INVOKE_BROKER_TO_GET_CONSUMER_STATUS and GET_CONSUMER_STATUS_FROM_CLIENT."""

    topic: str
    group: str
    client_addr: str | None = None


class TimeSpanHeader(Header):
    """The fields of a QUERY_CONSUME_TIME_SPAN request."""

    topic: str
    group: str


class RunningInfoHeader(Header):
    """The fields of a GET_CONSUMER_RUNNING_INFO request."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class CorrectionHeader(Header, kw_only=True):
    """The fields of a QUERY_CORRECTION_OFFSET request."""

    filter_groups: str | None = None
    compare_group: str
    topic: str


class ConsumeDirectlyHeader(Header):
    """The fields of a CONSUME_MESSAGE_DIRECTLY request."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None


class CloneOffsetHeader(Header):
    """The fields of a CLONE_GROUP_OFFSET request."""

    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class BrokerConsumeStatsHeader(Header):
    """The fields of a GET_BROKER_CONSUME_STATS request."""

    is_order: bool
