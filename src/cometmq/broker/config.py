"""Settings of a broker, beside those of its store."""

from enum import Enum
from pathlib import Path
from ssl import SSLContext
from typing import Annotated

from msgspec import Meta

from cometmq.protocol.flags import Perm
from cometmq.protocol.java.spelling import camel
from cometmq.protocol.names import TRACE_TOPIC
from cometmq.remoting.config import TLS_NAMES, Port, ServerConfig
from cometmq.remoting.tls import client_context

_NAMES = TLS_NAMES | {
    "broker_ip1": "brokerIP1",
    "broker_ip2": "brokerIP2",
    "tls_client_auth_server": "tls.client.authServer",
    "tls_client_trust_cert_path": "tls.client.trustCertPath",
    "use_tls": "useTLS",
}
Ms = Annotated[int, Meta(ge=0)]
Count = Annotated[int, Meta(ge=1)]


class BrokerRole(Enum):
    """Whether it takes messages, and whether a send waits for a copy of it."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class BrokerConfig(ServerConfig, kw_only=True, rename=camel(**_NAMES)):
    """Who a broker is, what it allows, and how long it waits. Times in ms unless said."""

    # Who it is
    broker_name: Annotated[str, Meta(min_length=1, description="shared by a master and its slaves")]
    broker_ip1: Annotated[str, Meta(min_length=1, description="the address that clients are told")]
    broker_ip2: Annotated[str, Meta(description="the address that slaves are told; empty: IP1")] = (
        ""
    )
    broker_cluster_name: Annotated[str, Meta(min_length=1)] = "DefaultCluster"
    broker_id: Annotated[int, Meta(ge=0, description="0 is a master")] = 0
    broker_role: BrokerRole = BrokerRole.ASYNC_MASTER
    broker_config_path: Annotated[str, Meta(description="file that changed settings go to")] = ""
    listen_port: Annotated[
        Port, Meta(description="and two below it a second one; 0 lets the system choose")
    ] = 10911
    namesrv_addr: Annotated[str, Meta(description="name servers, with ;")] = ""
    region_id: Annotated[str, Meta(description="told to producers for their traces")] = (
        "DefaultRegion"
    )

    # What it allows
    broker_permission: Annotated[int, Meta(ge=0, le=6, description="4 reads, 2 writes")] = int(
        Perm.READ | Perm.WRITE
    )
    auto_create_topic_enable: Annotated[
        bool, Meta(description="a send to an unknown topic makes it")
    ] = True
    default_topic_queue_nums: Annotated[Count, Meta(description="at most so many, then")] = 8
    auto_create_subscription_group: Annotated[
        bool, Meta(description="an unknown group is made when it first asks")
    ] = True
    cluster_topic_enable: Annotated[bool, Meta(description="a topic named as the cluster")] = True
    broker_topic_enable: Annotated[bool, Meta(description="a topic named as the broker")] = True
    trace_topic_enable: Annotated[bool, Meta(description="keeps the traces of clients")] = False
    msg_trace_topic_name: str = TRACE_TOPIC
    trace_on: Annotated[bool, Meta(description="producers may trace their sends")] = True
    reject_transaction_message: bool = False
    store_reply_message_enable: Annotated[
        bool, Meta(description="replies of request-reply calls are kept as messages too")
    ] = True
    slave_read_enable: Annotated[bool, Meta(description="far reads are sent to a slave")] = False
    enable_property_filter: Annotated[
        bool, Meta(description="consumers may filter by SQL92 expressions")
    ] = False
    filter_support_retry: Annotated[
        bool, Meta(description="SQL92 filters apply to retried messages too")
    ] = False
    enable_calc_filter_bit_map: Annotated[
        bool, Meta(description="SQL92 is tried when a message is put; needs enableConsumeQueueExt")
    ] = False
    expect_consumer_num_use_filter: Annotated[
        Count, Meta(description="groups with SQL92 that a message's bits are sized for")
    ] = 32
    max_error_rate_of_bloom_filter: Annotated[
        int, Meta(ge=1, le=99, description="percent of unwanted messages that are looked at, then")
    ] = 20
    filter_data_clean_time_span: Annotated[
        Count, Meta(description="ms after which the filter of a group that left is forgotten")
    ] = 86_400_000
    notify_consumer_ids_changed_enable: Annotated[
        bool, Meta(description="members are told when their group changes")
    ] = True
    start_accept_send_request_time_stamp: Annotated[
        int, Meta(description="sends are refused before this time, ms since 1970")
    ] = 0

    # Pulls that wait
    long_polling_enable: Annotated[bool, Meta(description="a pull waits for the next message")] = (
        True
    )
    short_polling_time_mills: Annotated[
        Ms, Meta(description="it waits, if it may not wait long")
    ] = 1_000

    # Flow control
    broker_fast_failure_enable: Annotated[
        bool, Meta(description="requests that waited too long are refused as busy")
    ] = True
    wait_time_mills_in_send_queue: Ms = 200
    os_page_cache_busy_time_out_mills: Annotated[
        Ms, Meta(description="if the last message took longer to be written, sends are refused")
    ] = 1_000
    send_thread_pool_queue_capacity: Annotated[Count, Meta(description="sends in flight")] = 10_000
    pull_thread_pool_queue_capacity: Annotated[Count, Meta(description="pulls in flight")] = 100_000
    reply_thread_pool_queue_capacity: Count = 10_000
    query_thread_pool_queue_capacity: Count = 20_000
    client_manager_thread_pool_queue_capacity: Count = 1_000_000
    consumer_manager_thread_pool_queue_capacity: Count = 1_000_000
    heartbeat_thread_pool_queue_capacity: Count = 50_000
    end_transaction_pool_queue_capacity: Count = 100_000

    # Delay
    message_delay_level: Annotated[str, Meta(description="s, m, h or d each; level 1 first")] = (
        "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    )
    flush_delay_offset_interval: Annotated[
        Ms, Meta(description="ms between writes of how far each level is delivered")
    ] = 1_000
    enable_schedule_message_stats: Annotated[
        bool, Meta(description="a delivery counts as a put of its topic, and as a get of the delay")
    ] = True

    # Transactions
    transaction_time_out: Annotated[Ms, Meta(description="a half message's age at first check")] = (
        6_000
    )
    transaction_check_max: Annotated[
        int, Meta(ge=0, description="checks until it is discarded")
    ] = 15
    transaction_check_interval: Annotated[Count, Meta(description="ms between checks")] = 60_000

    # What it keeps and tells, and how often
    flush_consumer_offset_interval: Annotated[
        Count, Meta(description="ms between writes of consumed offsets")
    ] = 5_000
    register_name_server_period: Annotated[
        int, Meta(description="ms between registrations, 10000 to 60000")
    ] = 30_000
    register_broker_timeout_mills: Annotated[Count, Meta(description="for one name server")] = 6_000
    force_register: Annotated[bool, Meta(description="register also when nothing has changed")] = (
        True
    )
    compressed_register: bool = False
    acl_enable: bool = False

    # How it speaks to name servers
    use_tls: Annotated[bool, Meta(description="over TLS")] = False
    tls_client_auth_server: Annotated[
        bool, Meta(description="verify their certificates, by those of the system or the next")
    ] = False
    tls_client_trust_cert_path: Annotated[
        str, Meta(description="certificates that are trusted, PEM")
    ] = ""

    @property
    def client_tls(self) -> SSLContext | None:
        """For the connections that it makes; None if they are plain."""
        if not self.use_tls:
            return None
        trust = self.tls_client_trust_cert_path
        return client_context(Path(trust) if trust else None, verify=self.tls_client_auth_server)


# What a person looks at first, and `mqbroker -m` shows.
IMPORTANT = frozenset(
    {
        "autoCreateSubscriptionGroup",
        "autoCreateTopicEnable",
        "brokerClusterName",
        "brokerId",
        "brokerIP1",
        "brokerIP2",
        "brokerName",
        "brokerRole",
        "fileReservedTime",
        "flushDiskType",
        "listenPort",
        "msgTraceTopicName",
        "namesrvAddr",
        "rejectTransactionMessage",
        "slaveReadEnable",
        "startAcceptSendRequestTimeStamp",
        "storePathCommitLog",
        "storePathRootDir",
        "traceTopicEnable",
        "transactionCheckInterval",
        "transactionCheckMax",
        "transactionTimeOut",
    }
)
