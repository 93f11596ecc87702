"""Settings of clients: frozen, checked when they are created, with Java's defaults.

A duration is given in seconds or as a `timedelta`, and read in seconds. Names are Java's in
Python's spelling.
"""

# A field that checks itself is a descriptor, and stands where a default would.
# ruff: noqa: RUF009

from dataclasses import dataclass, field, replace
from datetime import datetime
from ssl import SSLContext
from typing import Self, TypeVar, cast

from cometmq.client.consumer.shared.allocate import Allocation, Averagely
from cometmq.client.consumer.shared.flow_limits import FlowLimits
from cometmq.client.fields import (
    Addresses,
    AddressMap,
    CheckedConfig,
    Choice,
    Codes,
    Flag,
    Folder,
    Optional,
    Seconds,
    Setting,
    Text,
    Whole,
)
from cometmq.errors import BadName, BadSetting
from cometmq.local_address import local_ip
from cometmq.protocol.bodies.heartbeat import ConsumeFrom, MessageModel
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.limits import FRAME_SIZE_MAX, MESSAGE_SIZE_MAX
from cometmq.protocol.names import DEFAULT_TOPIC, check_group

DEFAULT_INSTANCE = "DEFAULT"
_GROUP = Text()
_TIMESTAMP = "%Y%m%d%H%M%S"  # local time, as Java's consumeTimestamp
_COMPRESSIONS = (MessageFlag.LZ4, MessageFlag.ZSTD, MessageFlag.ZLIB)
_RESERVED_GROUPS = frozenset({"DEFAULT_PRODUCER", "DEFAULT_CONSUMER"})


C = TypeVar("C", bound="ProducerConfig | ConsumerConfig")


class Strategy(Setting[Allocation, Allocation]):
    """How a group shares its queues."""

    allowed = "a strategy such as Averagely(), with a name and a method allocate"

    def check(self, name: str, value: object) -> Allocation:
        """As it is."""
        is_one = isinstance(getattr(value, "name", None), str) and callable(
            getattr(value, "allocate", None)
        )
        if isinstance(value, type) or not is_one:
            self.refuse(name, value)
        return cast(Allocation, value)


@dataclass(frozen=True, kw_only=True)
class ClientConfig(CheckedConfig):
    """What producers and consumers share."""

    name_servers: Addresses = Addresses()  # `host:port`s; of the environment, if none are given
    client_ip: Text = Text(blank=False, otherwise=local_ip)
    instance_name: Text = Text(DEFAULT_INSTANCE, blank=False)
    namespace: Text = Text()
    unit_name: Text = Text()
    unit_mode: Flag = Flag(False)
    vip_channel_enabled: Flag = Flag(False)
    use_tls: Flag = Flag(False)
    # Your own; otherwise the system's certificate authorities are trusted.
    tls_context: Optional[SSLContext] = Optional(SSLContext)
    access_key: Text = Text()  # with both, every request is signed
    secret_key: Text = field(default=Text(secret=True), repr=False)
    security_token: Text = field(default=Text(secret=True), repr=False)
    enable_stream_request_type: Flag = Flag(False)
    poll_name_server_interval: Seconds = Seconds(30, 0.01)
    heartbeat_broker_interval: Seconds = Seconds(30, 0.01)
    persist_consumer_offset_interval: Seconds = Seconds(5, 0.01)
    pull_delay_when_exception: Seconds = Seconds(1)
    api_timeout: Seconds = Seconds(3, 0.001)
    # Where a broker really is, by the address that it tells: for brokers behind NAT or Docker.
    address_map: AddressMap = AddressMap()

    def __post_init__(self) -> None:
        if bool(self.access_key) != bool(self.secret_key):
            raise BadSetting("access_key and secret_key belong together: give both, or none")

    @property
    def client_id(self) -> str:
        """Who a client is to its brokers: `ip@instance`, and what Java adds to it."""
        parts = [self.client_ip, self.instance_name]
        if self.unit_name.strip():
            parts.append(self.unit_name)
        if self.enable_stream_request_type:
            parts.append("STREAM")
        return "@".join(parts)

    def with_own_instance(self, pid: int, nanoseconds: int) -> Self:
        """An instance name of this process and moment, if none was chosen.

        Two clients of one id would be one to a broker, and share queues that each should have.
        Broadcasting consumers keep the name they have: their offsets are filed under it.
        """
        if self.instance_name != DEFAULT_INSTANCE:
            return self
        return replace(self, instance_name=f"{pid}#{nanoseconds}")


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(CheckedConfig):
    """How a producer sends."""

    group: str
    # The topic whose settings a missing topic gets.
    create_topic_key: Text = Text(DEFAULT_TOPIC, blank=False)
    default_topic_queue_nums: Whole = Whole(4, 1, 65_535)
    send_timeout: Seconds = Seconds(3, 0.001)
    compress_over: Whole = Whole(4096)  # bytes of body
    compression: Choice[MessageFlag] = Choice(MessageFlag.ZLIB, *_COMPRESSIONS)
    compress_level: Whole = Whole(5, 0, 9)
    retries: Whole = Whole(2, 0, 100)  # of a send that is waited for, at another broker
    async_retries: Whole = Whole(2, 0, 100)  # of one that is not
    retry_another_broker_when_not_stored: Flag = Flag(False)
    retry_response_codes: Codes = Codes(
        {
            ResponseCode.TOPIC_NOT_EXIST,
            ResponseCode.SERVICE_NOT_AVAILABLE,
            ResponseCode.SYSTEM_ERROR,
            ResponseCode.NO_PERMISSION,
            ResponseCode.NO_BUYER_ID,
            ResponseCode.NOT_IN_CURRENT_UNIT,
        }
    )
    message_size_max: Whole = Whole(MESSAGE_SIZE_MAX, 1, FRAME_SIZE_MAX)
    send_latency_fault_enable: Flag = Flag(False)  # leave slow brokers out for a while
    check_request_hold_max: Whole = Whole(2000, 1)  # transaction checks that wait for an answer

    def __post_init__(self) -> None:
        _check_group(self.group)


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(CheckedConfig):
    """What push and pull consumers share."""

    group: str
    message_model: Choice[MessageModel] = Choice(MessageModel.CLUSTERING)
    consume_from: Choice[ConsumeFrom] = Choice(ConsumeFrom.LAST_OFFSET)  # where a new group begins
    # For ConsumeFrom.TIMESTAMP; None is 30 minutes ago.
    consume_timestamp: Optional[datetime] = Optional(datetime)
    allocation: Strategy = Strategy(Averagely())
    unit_mode: Flag = Flag(False)
    pull_threshold_for_queue: Whole = Whole(1000, 1, 65_535)
    pull_threshold_size_for_queue_mib: Whole = Whole(100, 1, 1024)
    offset_folder: Folder = Folder()  # of a broadcasting consumer; None is ~/.rocketmq_offsets

    def __post_init__(self) -> None:
        _check_group(self.group)

    def start_ms(self, now_ms: int) -> int:
        """From when a group reads that begins at a time."""
        if self.consume_timestamp is None:
            return now_ms - 30 * 60 * 1000
        return int(self.consume_timestamp.timestamp() * 1000)


@dataclass(frozen=True, kw_only=True)
class PushConsumerConfig(ConsumerConfig):
    """How a push consumer pulls and runs its listener."""

    _renamed = {"suspend_current_queue_ms": "suspend_current_queue_time"}

    consume_threads: Whole = Whole(20, 1, 1000)
    consume_concurrently_max_span: Whole = Whole(2000, 1, 65_535)
    pull_threshold_for_topic: Whole = Whole(-1, -1, 6_553_500)  # -1: none
    pull_threshold_size_for_topic_mib: Whole = Whole(-1, -1, 102_400)
    pull_interval: Seconds = Seconds(0, 0, 65.535)
    consume_message_batch_max_size: Whole = Whole(1, 1, 1024)
    pull_batch_size: Whole = Whole(32, 1, 1024)
    post_subscription_when_pull: Flag = Flag(False)
    max_reconsume_times: Whole = Whole(-1, -1)  # -1: 16 where messages run side by side, else any
    suspend_current_queue_time: Seconds = Seconds(1, 0.01, 30)
    consume_timeout: Seconds = Seconds(900, 0.001)
    await_termination_when_shutdown: Seconds = Seconds(0)

    def flow_limits(self, queues: int, *, orderly: bool = False) -> FlowLimits:
        """For one of so many queues of a topic that this consumer has."""
        size_mib = self.pull_threshold_size_for_topic_mib
        limits = FlowLimits(
            messages=self.pull_threshold_for_queue,
            size=self.pull_threshold_size_for_queue_mib << 20,
            span=None if orderly else self.consume_concurrently_max_span,
        )
        return limits.shared(
            queues,
            messages=self.pull_threshold_for_topic,
            size=-1 if size_mib < 0 else size_mib << 20,
        )


@dataclass(frozen=True, kw_only=True)
class PullConsumerConfig(ConsumerConfig):
    """How long the pulls of a pull consumer may take."""

    _renamed = {"broker_suspend_max_ms": "broker_suspend_max_time"}

    broker_suspend_max_time: Seconds = Seconds(20, 0.001)
    consumer_timeout_when_suspend: Seconds = Seconds(30, 0.001)
    consumer_pull_timeout: Seconds = Seconds(10, 0.001)

    def __post_init__(self) -> None:
        ConsumerConfig.__post_init__(self)
        _check_suspend(self.broker_suspend_max_time, self.consumer_timeout_when_suspend)


@dataclass(frozen=True, kw_only=True)
class LitePullConsumerConfig(ConsumerConfig):
    """How a lite pull consumer pulls ahead of its reader."""

    _renamed = {"broker_suspend_max_ms": "broker_suspend_max_time"}

    broker_suspend_max_time: Seconds = Seconds(20, 0.001)
    consumer_timeout_when_suspend: Seconds = Seconds(30, 0.001)
    consumer_pull_timeout: Seconds = Seconds(10, 0.001)
    auto_commit: Flag = Flag(True)
    auto_commit_interval: Seconds = Seconds(5, 1)
    pull_batch_size: Whole = Whole(10, 1, 1024)
    pull_threshold_for_all: Whole = Whole(10_000, 1)
    consume_max_span: Whole = Whole(2000, 1, 65_535)
    poll_timeout: Seconds = Seconds(5)
    topic_metadata_check_interval: Seconds = Seconds(30, 0.01)

    def __post_init__(self) -> None:
        ConsumerConfig.__post_init__(self)
        _check_suspend(self.broker_suspend_max_time, self.consumer_timeout_when_suspend)

    @property
    def flow_limits(self) -> FlowLimits:
        """For each queue."""
        return FlowLimits(
            messages=self.pull_threshold_for_queue,
            size=self.pull_threshold_size_for_queue_mib << 20,
            span=self.consume_max_span,
        )


def _check_suspend(suspend: float, timeout: float) -> None:
    if timeout < suspend:
        raise BadSetting(
            f"consumer_timeout_when_suspend is {timeout:g} s:"
            f" it must be at least broker_suspend_max_time, {suspend:g} s"
        )


def parse_timestamp(text: str) -> datetime:
    """A `consumeTimestamp` of Java: yyyyMMddHHmmss, local time."""
    try:
        return datetime.strptime(text, _TIMESTAMP).astimezone()
    except ValueError as error:
        raise BadSetting(f"{text!r} is no time such as 20260131235959") from error


def config_of(kind: type[C], group: str | C) -> C:
    """The settings of a client that was given them, or the name of its group."""
    if isinstance(group, kind):
        return group
    if isinstance(group, str):
        return kind(group=group)
    found = type(group).__name__
    raise BadSetting(f"group is a {found}: it must be the name of a group, or a {kind.__name__}")


def _check_group(group: str) -> None:
    _GROUP.check("group", group)
    try:
        check_group(group)
    except BadName as error:
        raise BadSetting(str(error)) from error
    if group in _RESERVED_GROUPS:
        raise BadSetting(f"group {group} is Java's word for none: choose a name of your own")
