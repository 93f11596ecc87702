"""Bodies about clients: connections, offset resets, the state of a consumer."""

from enum import Enum

from cometmq.protocol.bodies.heartbeat import ConsumeFrom, ConsumeType, MessageModel, Subscription
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.java.fastjson import Body
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.limits import Int32, Int64


class Connection(Body):
    """A client that is connected to a broker."""

    client_addr: str = ""
    client_id: str = ""
    language: str = ""
    version: Int32 = 0


class ConsumerConnection(Body):
    """The response body of GET_CONSUMER_CONNECTION_LIST."""

    connection_set: list[Connection] = []
    consume_from_where: ConsumeFrom | None = None
    consume_type: ConsumeType | None = None
    # Our extension, ignored by others: the expressions by topic and client id, if members differ.
    differing_subscriptions: dict[str, dict[str, str]] | None = None
    message_model: MessageModel | None = None
    subscription_table: dict[str, Subscription] = {}


class ProducerConnection(Body):
    """The response body of GET_PRODUCER_CONNECTION_LIST."""

    connection_set: list[Connection] = []


class ProducerInfo(Body, rename=camel(remote_ip="remoteIP")):
    """A producer that is connected to a broker."""

    client_id: str = ""
    language: str = ""
    last_update_timestamp: Int64 = 0
    remote_ip: str = ""
    version: Int32 = 0


class ProducerTable(Body):
    """The response body of GET_ALL_PRODUCER_INFO: by group."""

    data: dict[str, list[ProducerInfo]] = {}


class ResetOffsets(Body):
    """The new offsets: response of INVOKE_BROKER_TO_RESET_OFFSET, and request to the members."""

    offset_table: dict[MessageQueue, Int64] = {}


class QueueOffset(Body):
    """A queue and an offset in one object."""

    broker_name: str = ""
    offset: Int64 = 0
    queue_id: Int32 = 0
    topic: str = ""


class ResetOffsetsFlat(Body):
    """`ResetOffsets` for C++ clients, which cannot read maps with object keys."""

    offset_table: list[QueueOffset] = []


class ConsumerStatus(Body):
    """The offsets of group members: the response of one member, or of all."""

    consumer_table: dict[str, dict[MessageQueue, Int64]] = {}
    message_queue_table: dict[MessageQueue, Int64] = {}


class CorrectionOffsets(Body):
    """The response body of QUERY_CORRECTION_OFFSET: by queue id."""

    correction_offsets: dict[Int32, Int64] = {}


class OffsetMoved(Body):
    """A message on OFFSET_MOVED_EVENT: a group pulled from an offset out of range."""

    consumer_group: str
    message_queue: MessageQueue
    offset_new: Int64
    offset_request: Int64


class ProcessQueueInfo(Body, rename=camel(cached_mib="cachedMsgSizeInMiB", dropped="droped")):
    """The state of a queue inside a consumer."""

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
    """Rates and response times of a topic inside a consumer."""

    consume_failed_msgs: Int64 = 0
    consume_failed_tps: float = 0.0
    consume_ok_tps: float = 0.0
    consume_rt: float = 0.0
    pull_rt: float = 0.0
    pull_tps: float = 0.0


class ConsumerRunningInfo(Body):
    """The response body of GET_CONSUMER_RUNNING_INFO."""

    jstack: str | None = None
    mq_table: dict[MessageQueue, ProcessQueueInfo] = {}
    properties: dict[str, str] = {}
    status_table: dict[str, ConsumeStatus] = {}
    subscription_set: list[Subscription] = []


class ConsumeResult(Enum):
    """The result of a listener."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    THROW_EXCEPTION = "CR_THROW_EXCEPTION"
    RETURN_NULL = "CR_RETURN_NULL"


class DirectConsumption(Body):
    """The response body of CONSUME_MESSAGE_DIRECTLY."""

    auto_commit: bool = True
    consume_result: ConsumeResult | None = None
    order: bool = False
    remark: str | None = None
    spent_time_mills: Int64 = 0
