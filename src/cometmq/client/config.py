"""Settings of clients: frozen, checked when they are created, with Java's defaults.

A duration is given in seconds or as a `timedelta`, and read in seconds. Names are Java's in
Python's spelling.
"""

# A field is a descriptor that checks the value, in the place of a default.
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
_COMPRESSIONS = (MessageFlag.LZ4, MessageFlag.ZSTD, MessageFlag.ZLIB)
_RESERVED_GROUPS = frozenset({"DEFAULT_PRODUCER", "DEFAULT_CONSUMER"})


C = TypeVar("C", bound="ProducerConfig | ConsumerConfig")


class Strategy(Setting[Allocation, Allocation]):
    """A strategy by which a group divides its queues."""

    allowed = "a strategy such as Averagely(), with a name and a method allocate"

    def check(self, name: str, value: object) -> Allocation:
        is_one = isinstance(getattr(value, "name", None), str) and callable(
            getattr(value, "allocate", None)
        )
        if isinstance(value, type) or not is_one:
            self.refuse(name, value)
        return cast(Allocation, value)


@dataclass(frozen=True, kw_only=True)
class ClientConfig(CheckedConfig):
    """Settings that producers and consumers share: addresses, identity, security, intervals.

    Attributes:
        name_servers: Addresses of the name servers, `host:port`, as a list or as text with
            semicolons. The default is the environment variable NAMESRV_ADDR.
        client_ip: The address by which brokers know this client. The default is the address of
            this machine.
        instance_name: Distinguishes clients of one machine. With the default, each client that
            has its own session gets a unique name; broadcasting consumers keep the default,
            because their offset files are named after it.
        namespace: Prefix of all topics and groups. Programs see names without it.
        unit_name: Suffix of the client id, for deployments in several units.
        unit_mode: Marks topics and groups that this client creates as those of a unit.
        vip_channel_enabled: Sends to the second port of a broker (its port minus 2), which serves
            no pulls.
        use_tls: Encrypts all connections.
        tls_context: The TLS context. The default trusts the certificate authorities of the system.
        access_key: Account name. With `secret_key`, every request is signed.
        secret_key: Secret of the account; never shown.
        security_token: Temporary token that is sent with each signature.
        enable_stream_request_type: Marks the client id as that of a stream client.
        poll_name_server_interval: Interval at which routes are refreshed.
        heartbeat_broker_interval: Interval of heartbeats to the brokers.
        persist_consumer_offset_interval: Interval at which a push consumer sends its offsets to
            the brokers, or writes them to its file.
        pull_delay_when_exception: Pause of a queue after a failed pull.
        api_timeout: Timeout of requests other than sends and pulls.
        address_map: Maps addresses that the name servers report to addresses to connect to, for
            brokers behind NAT or in containers.
    """

    name_servers: Addresses = Addresses()
    client_ip: Text = Text(blank=False, otherwise=local_ip)
    instance_name: Text = Text(DEFAULT_INSTANCE, blank=False)
    namespace: Text = Text()
    unit_name: Text = Text()
    unit_mode: Flag = Flag(False)
    vip_channel_enabled: Flag = Flag(False)
    use_tls: Flag = Flag(False)
    tls_context: Optional[SSLContext] = Optional(SSLContext)
    access_key: Text = Text()
    secret_key: Text = field(default=Text(secret=True), repr=False)
    security_token: Text = field(default=Text(secret=True), repr=False)
    enable_stream_request_type: Flag = Flag(False)
    poll_name_server_interval: Seconds = Seconds(30, 0.01)
    heartbeat_broker_interval: Seconds = Seconds(30, 0.01)
    persist_consumer_offset_interval: Seconds = Seconds(5, 0.01)
    pull_delay_when_exception: Seconds = Seconds(1)
    api_timeout: Seconds = Seconds(3, 0.001)
    address_map: AddressMap = AddressMap()

    def __post_init__(self) -> None:
        if bool(self.access_key) != bool(self.secret_key):
            raise BadSetting("access_key and secret_key belong together: give both or neither")

    @property
    def client_id(self) -> str:
        """The id by which brokers know a client: `ip@instance`, with Java's suffixes."""
        parts = [self.client_ip, self.instance_name]
        if self.unit_name.strip():
            parts.append(self.unit_name)
        if self.enable_stream_request_type:
            parts.append("STREAM")
        return "@".join(parts)

    def with_own_instance(self, pid: int, nanoseconds: int) -> Self:
        """Replace the default instance name by a unique one.

        Two clients with the same id are one client to a broker, and would share their queues.
        """
        if self.instance_name != DEFAULT_INSTANCE:
            return self
        return replace(self, instance_name=f"{pid}#{nanoseconds}")


@dataclass(frozen=True, kw_only=True)
class ProducerConfig(CheckedConfig):
    """Settings of a producer.

    Attributes:
        group: Name of the producer group.
        create_topic_key: The topic whose settings an automatically created topic gets.
        default_topic_queue_nums: Queues of an automatically created topic, per broker.
        send_timeout: Time for a send, all attempts included.
        compress_over: Bodies of more bytes than this are compressed.
        compression: Compression algorithm.
        compress_level: Compression level, 0 to 9.
        retries: Further attempts of an awaited send within its timeout, each on another broker if
            there is one.
        async_retries: Further attempts of a callback send within its timeout.
        retry_backoff: Delay before a send returns to a broker that failed it. The delay doubles
            with each return, up to one second, and half of it is random. 0: retries follow
            immediately, as in Java.
        retry_another_broker_when_not_stored: Retries a message whose broker reports that it is
            stored but not yet safe (flush or replication timeout). The message may be stored twice.
        retry_response_codes: Response codes of a broker after which a send is retried.
        message_size_max: Largest body in bytes.
        send_latency_fault_enable: Avoids brokers for a while that were slow or failed.
        check_request_hold_max: Transaction checks that may wait for the producer's answer. Further
            checks are dropped; the broker repeats them.
    """

    group: str
    create_topic_key: Text = Text(DEFAULT_TOPIC, blank=False)
    default_topic_queue_nums: Whole = Whole(4, 1, 65_535)
    send_timeout: Seconds = Seconds(3, 0.001)
    compress_over: Whole = Whole(4096)
    compression: Choice[MessageFlag] = Choice(MessageFlag.ZLIB, *_COMPRESSIONS)
    compress_level: Whole = Whole(5, 0, 9)
    retries: Whole = Whole(10, 0, 100)
    async_retries: Whole = Whole(10, 0, 100)
    retry_backoff: Seconds = Seconds(0.1, 0, 60)
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
    send_latency_fault_enable: Flag = Flag(False)
    check_request_hold_max: Whole = Whole(2000, 1)

    def __post_init__(self) -> None:
        _check_group(self.group)


@dataclass(frozen=True, kw_only=True)
class ConsumerConfig(CheckedConfig):
    """Settings that all kinds of consumers share.

    Attributes:
        group: Name of the consumer group.
        message_model: CLUSTERING: the members of a group share the messages. BROADCASTING: each
            member receives all of them.
        consume_from: Where a new group starts. A group with offsets continues at its offsets.
        consume_timestamp: The start time for `ConsumeFrom.TIMESTAMP`. The default is 30 minutes
            before the consumer starts.
        allocation: Strategy by which the members of a group divide the queues of a topic. All
            members must use the same one.
        unit_mode: Marks the retry topic of the group as that of a unit.
        pull_threshold_for_queue: Messages of a queue that may wait in memory. At the limit,
            pulling pauses.
        pull_threshold_size_for_queue_mib: The same limit in MiB of message bodies.
        offset_folder: Folder of the offset files of a broadcasting consumer. The default is
            `~/.rocketmq_offsets`.
    """

    group: str
    message_model: Choice[MessageModel] = Choice(MessageModel.CLUSTERING)
    consume_from: Choice[ConsumeFrom] = Choice(ConsumeFrom.LAST_OFFSET)
    consume_timestamp: Optional[datetime] = Optional(datetime)
    allocation: Strategy = Strategy(Averagely())
    unit_mode: Flag = Flag(False)
    pull_threshold_for_queue: Whole = Whole(1000, 1, 65_535)
    pull_threshold_size_for_queue_mib: Whole = Whole(100, 1, 1024)
    offset_folder: Folder = Folder()

    def __post_init__(self) -> None:
        _check_group(self.group)

    def start_ms(self, now_ms: int) -> int:
        """Return the start time of a group that starts at `ConsumeFrom.TIMESTAMP`."""
        if self.consume_timestamp is None:
            return now_ms - 30 * 60 * 1000
        return int(self.consume_timestamp.timestamp() * 1000)


@dataclass(frozen=True, kw_only=True)
class PushConsumerConfig(ConsumerConfig):
    """Settings of a push consumer, in addition to those of `ConsumerConfig`.

    Attributes:
        consume_threads: Calls of the listener that may run at the same time.
        consume_concurrently_max_span: Largest distance between the first and the last offset of a
            queue in memory. At the limit, pulling pauses. Not used by orderly listeners.
        pull_threshold_for_topic: Messages of a topic that may wait in memory, divided among its
            queues; -1: no limit other than `pull_threshold_for_queue`.
        pull_threshold_size_for_topic_mib: The same limit in MiB; -1: no limit.
        pull_interval: Pause between two pulls of a queue.
        consume_message_batch_max_size: With more than 1, the listener receives lists of up to this
            many messages.
        pull_batch_size: Messages that a pull may return.
        post_subscription_when_pull: Sends the filter expression with each pull instead of using
            the one of the heartbeat.
        max_reconsume_times: Retries before a message becomes a dead letter; -1: 16 retries for
            concurrent listeners, unlimited retries for orderly listeners.
        suspend_current_queue_time: Pause of a queue after an orderly listener failed.
        consume_timeout: A concurrent call that runs longer is given up: its messages are sent back
            to the broker and redelivered.
        await_termination_when_shutdown: With more than 0, `close` waits up to this long until all
            messages in memory are consumed. With 0, only calls that are already running may
            finish, within 3 seconds.
    """

    _renamed = {"suspend_current_queue_ms": "suspend_current_queue_time"}

    consume_threads: Whole = Whole(20, 1, 1000)
    consume_concurrently_max_span: Whole = Whole(2000, 1, 65_535)
    pull_threshold_for_topic: Whole = Whole(-1, -1, 6_553_500)
    pull_threshold_size_for_topic_mib: Whole = Whole(-1, -1, 102_400)
    pull_interval: Seconds = Seconds(0, 0, 65.535)
    consume_message_batch_max_size: Whole = Whole(1, 1, 1024)
    pull_batch_size: Whole = Whole(32, 1, 1024)
    post_subscription_when_pull: Flag = Flag(False)
    max_reconsume_times: Whole = Whole(-1, -1)
    suspend_current_queue_time: Seconds = Seconds(1, 0.01, 30)
    consume_timeout: Seconds = Seconds(900, 0.001)
    await_termination_when_shutdown: Seconds = Seconds(0)

    def flow_limits(self, queues: int, *, orderly: bool = False) -> FlowLimits:
        """Return the limits of one queue, if this consumer owns `queues` queues of the topic."""
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
    """Settings of a pull consumer, in addition to those of `ConsumerConfig`.

    Attributes:
        broker_suspend_max_time: How long the broker holds a pull that finds no message.
        consumer_timeout_when_suspend: Timeout of such a pull; at least `broker_suspend_max_time`.
        consumer_pull_timeout: Timeout of a pull that the broker answers immediately.
    """

    _renamed = {"broker_suspend_max_ms": "broker_suspend_max_time"}

    broker_suspend_max_time: Seconds = Seconds(20, 0.001)
    consumer_timeout_when_suspend: Seconds = Seconds(30, 0.001)
    consumer_pull_timeout: Seconds = Seconds(10, 0.001)

    def __post_init__(self) -> None:
        ConsumerConfig.__post_init__(self)
        _check_suspend(self.broker_suspend_max_time, self.consumer_timeout_when_suspend)


@dataclass(frozen=True, kw_only=True)
class LitePullConsumerConfig(ConsumerConfig):
    """Settings of a lite pull consumer, in addition to those of `ConsumerConfig`.

    Attributes:
        broker_suspend_max_time: How long the broker holds a pull that finds no message.
        consumer_timeout_when_suspend: Timeout of such a pull; at least `broker_suspend_max_time`.
        consumer_pull_timeout: Timeout of a pull that the broker answers immediately.
        auto_commit: Commits the offsets of polled messages at `auto_commit_interval`.
        auto_commit_interval: Interval of automatic commits.
        pull_batch_size: Messages that a pull may return, and the largest result of `poll`.
        pull_threshold_for_all: Messages of all queues that may wait in memory. At the limit,
            pulling pauses.
        consume_max_span: Largest distance between the first and the last offset of a queue in
            memory. At the limit, pulling pauses.
        poll_timeout: How long `poll` waits for a message if it is called without a timeout.
        topic_metadata_check_interval: Interval at which the consumer looks for new queues.
    """

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
        """The limits of each queue."""
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


def config_of(kind: type[C], group: str | C) -> C:
    """Return the settings that a client was given, or the defaults for the group it names."""
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
        raise BadSetting(f"group {group} is reserved: Java's clients use it as a placeholder")
