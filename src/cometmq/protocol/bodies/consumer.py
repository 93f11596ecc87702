"""Connections, offsets to reset, and what runs inside a consumer."""

from enum import Enum

from cometmq.protocol.bodies.heartbeat import ConsumeFrom, ConsumeType, MessageModel, Subscription
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.java.fastjson import Body
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.limits import Int32, Int64


class Connection(Body):
    """One client as the broker sees it."""

    client_addr: str = ""
    client_id: str = ""
    language: str = ""
    version: Int32 = 0


class ConsumerConnection(Body):
    """GET_CONSUMER_CONNECTION_LIST."""

    connection_set: list[Connection] = []
    consume_from_where: ConsumeFrom | None = None
    consume_type: ConsumeType | None = None
    # Ours, passed over by others: topic and client id to its expression, where members differ.
    differing_subscriptions: dict[str, dict[str, str]] | None = None
    message_model: MessageModel | None = None
    subscription_table: dict[str, Subscription] = {}


class ProducerConnection(Body):
    """GET_PRODUCER_CONNECTION_LIST."""

    connection_set: list[Connection] = []


class ProducerInfo(Body, rename=camel(remote_ip="remoteIP")):
    """One producer as the broker sees it."""

    client_id: str = ""
    language: str = ""
    last_update_timestamp: Int64 = 0
    remote_ip: str = ""
    version: Int32 = 0


class ProducerTable(Body):
    """GET_ALL_PRODUCER_INFO: by group."""

    data: dict[str, list[ProducerInfo]] = {}


class ResetOffsets(Body):
    """INVOKE_BROKER_TO_RESET_OFFSET, and what the broker then tells the members."""

    offset_table: dict[MessageQueue, Int64] = {}


class QueueOffset(Body):
    """A queue and an offset, flat."""

    broker_name: str = ""
    offset: Int64 = 0
    queue_id: Int32 = 0
    topic: str = ""


class ResetOffsetsFlat(Body):
    """The same for C++ clients, which cannot read maps with object keys."""

    offset_table: list[QueueOffset] = []


class ConsumerStatus(Body):
    """Offsets of a group's members: what a member answers, and what the broker gathers."""

    consumer_table: dict[str, dict[MessageQueue, Int64]] = {}
    message_queue_table: dict[MessageQueue, Int64] = {}


class CorrectionOffsets(Body):
    """QUERY_CORRECTION_OFFSET: by queue id."""

    correction_offsets: dict[Int32, Int64] = {}


class OffsetMoved(Body):
    """The body of a message on OFFSET_MOVED_EVENT: a group asked for an offset out of range."""

    consumer_group: str
    message_queue: MessageQueue
    offset_new: Int64
    offset_request: Int64


class ProcessQueueInfo(Body, rename=camel(cached_mib="cachedMsgSizeInMiB", dropped="droped")):
    """One queue inside a consumer."""

    cached_msg_count: Int32 = 0
    cached_msg_max_offset: Int64 = 0
    cached_msg_min_offset: Int64 = 0
    cached_mib: Int32 = 0
    commit_offset: Int64 = 0
    dropped: bool = False
    last_consume_timestamp: Int64 = 0
    last_lock_timestamp: Int64 = 0
    last_pull_timestamp: Int64 = 0
    locked: bool = False
    transaction_msg_count: Int32 = 0
    transaction_msg_max_offset: Int64 = 0
    transaction_msg_min_offset: Int64 = 0
    try_unlock_times: Int64 = 0


_CONSUME_STATUS = camel(
    consume_failed_tps="consumeFailedTPS",
    consume_ok_tps="consumeOKTPS",
    consume_rt="consumeRT",
    pull_rt="pullRT",
    pull_tps="pullTPS",
)


class ConsumeStatus(Body, rename=_CONSUME_STATUS):
    """Rates and times of one topic inside a consumer."""

    consume_failed_msgs: Int64 = 0
    consume_failed_tps: float = 0.0
    consume_ok_tps: float = 0.0
    consume_rt: float = 0.0
    pull_rt: float = 0.0
    pull_tps: float = 0.0


class ConsumerRunningInfo(Body):
    """GET_CONSUMER_RUNNING_INFO."""

    jstack: str | None = None
    mq_table: dict[MessageQueue, ProcessQueueInfo] = {}
    properties: dict[str, str] = {}
    status_table: dict[str, ConsumeStatus] = {}
    subscription_set: list[Subscription] = []


class ConsumeResult(Enum):
    """What a listener made of a message."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    RETURN_NULL = "CR_RETURN_NULL"


class DirectConsumption(Body):
    """CONSUME_MESSAGE_DIRECTLY."""

    auto_commit: bool = True
    consume_result: ConsumeResult | None = None
    order: bool = False
    remark: str | None = None
    spent_time_mills: Int64 = 0
