"""The settings of a broker, without those of its store."""

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
    """The role of a broker: master, or slave of a master."""

    ASYNC_MASTER = "ASYNC_MASTER"
    SYNC_MASTER = "SYNC_MASTER"
    SLAVE = "SLAVE"


class BrokerConfig(ServerConfig, kw_only=True, rename=camel(**_NAMES)):
    """The settings of a broker. Times are in ms unless the description says otherwise."""

    # Identity
    broker_name: Annotated[
        str, Meta(min_length=1, description="name of the broker, shared by a master and its slaves")
    ]
    broker_ip1: Annotated[
        str, Meta(min_length=1, description="address that the broker advertises to clients")
    ]
    broker_ip2: Annotated[
        str, Meta(description="address that the broker advertises to slaves; empty: brokerIP1")
    ] = ""
    broker_cluster_name: Annotated[str, Meta(min_length=1, description="name of the cluster")] = (
        "DefaultCluster"
    )
    broker_id: Annotated[int, Meta(ge=0, description="0: master; above 0: slave")] = 0
    broker_role: Annotated[BrokerRole, Meta(description="SLAVE is not supported yet")] = (
        BrokerRole.ASYNC_MASTER
    )
    broker_config_path: Annotated[
        str, Meta(description="file to which changed settings are written")
    ] = ""
    listen_port: Annotated[
        Port,
        Meta(description="port to listen on; the second port is two below it; 0: any free ports"),
    ] = 10911
    namesrv_addr: Annotated[
        str, Meta(description="name servers to register with, host:port;host:port")
    ] = ""
    region_id: Annotated[str, Meta(description="region in the traces of producers")] = (
        "DefaultRegion"
    )

    # Permissions and features
    broker_permission: Annotated[
        int, Meta(ge=0, le=6, description="2: write, 4: read, 6: both")
    ] = int(Perm.READ | Perm.WRITE)
    auto_create_topic_enable: Annotated[
        bool, Meta(description="a send to an unknown topic creates it")
    ] = True
    default_topic_queue_nums: Annotated[
        Count, Meta(description="maximum number of queues of automatically created topics")
    ] = 8
    auto_create_subscription_group: Annotated[
        bool, Meta(description="the first request of an unknown consumer group creates it")
    ] = True
    cluster_topic_enable: Annotated[
        bool, Meta(description="create a topic with the name of the cluster")
    ] = True
    broker_topic_enable: Annotated[
        bool, Meta(description="create a topic with the name of the broker")
    ] = True
    trace_topic_enable: Annotated[
        bool, Meta(description="create the topic for the traces of clients")
    ] = False
    msg_trace_topic_name: Annotated[str, Meta(description="topic for the traces of clients")] = (
        TRACE_TOPIC
    )
    trace_on: Annotated[bool, Meta(description="producers may send traces")] = True
    reject_transaction_message: Annotated[
        bool, Meta(description="refuse transactional messages")
    ] = False
    store_reply_message_enable: Annotated[
        bool, Meta(description="store the replies of request-reply calls as messages")
    ] = True
    slave_read_enable: Annotated[
        bool, Meta(description="redirect reads of old messages to a slave")
    ] = False
    enable_property_filter: Annotated[bool, Meta(description="allow SQL92 filters")] = False
    filter_support_retry: Annotated[
        bool, Meta(description="apply SQL92 filters to retried messages")
    ] = False
    enable_calc_filter_bit_map: Annotated[
        bool, Meta(description="evaluate SQL92 filters at each store; needs enableConsumeQueueExt")
    ] = False
    expect_consumer_num_use_filter: Annotated[
        Count, Meta(description="groups with SQL92 filters for which the bloom filter is sized")
    ] = 32
    max_error_rate_of_bloom_filter: Annotated[
        int, Meta(ge=1, le=99, description="false positives of the bloom filter, in percent")
    ] = 20
    filter_data_clean_time_span: Annotated[
        Count, Meta(description="ms after which the filter of an offline group is deleted")
    ] = 86_400_000
    notify_consumer_ids_changed_enable: Annotated[
        bool, Meta(description="notify members when their group changes")
    ] = True
    start_accept_send_request_time_stamp: Annotated[
        int, Meta(description="refuse sends before this time, in ms since 1970")
    ] = 0

    # Long polling
    long_polling_enable: Annotated[
        bool, Meta(description="a pull without a result waits for the next message")
    ] = True
    short_polling_time_mills: Annotated[
        Ms, Meta(description="how long a pull waits (ms) if longPollingEnable is false")
    ] = 1_000

    # Flow control
    broker_fast_failure_enable: Annotated[
        bool, Meta(description="refuse requests that waited too long with SYSTEM_BUSY")
    ] = True
    wait_time_mills_in_send_queue: Annotated[
        Ms, Meta(description="refuse sends that waited longer (ms)")
    ] = 200
    os_page_cache_busy_time_out_mills: Annotated[
        Ms, Meta(description="refuse sends while writing a message takes longer (ms)")
    ] = 1_000
    send_thread_pool_queue_capacity: Annotated[
        Count, Meta(description="limit of sends in flight")
    ] = 10_000
    pull_thread_pool_queue_capacity: Annotated[
        Count, Meta(description="limit of pulls in flight")
    ] = 100_000
    reply_thread_pool_queue_capacity: Annotated[
        Count, Meta(description="limit of replies in flight")
    ] = 10_000
    query_thread_pool_queue_capacity: Annotated[
        Count, Meta(description="limit of queries in flight")
    ] = 20_000
    client_manager_thread_pool_queue_capacity: Annotated[
        Count, Meta(description="limit of client management requests in flight")
    ] = 1_000_000
    consumer_manager_thread_pool_queue_capacity: Annotated[
        Count, Meta(description="limit of offset and group requests in flight")
    ] = 1_000_000
    heartbeat_thread_pool_queue_capacity: Annotated[
        Count, Meta(description="limit of heartbeats in flight")
    ] = 50_000
    end_transaction_pool_queue_capacity: Annotated[
        Count, Meta(description="limit of commits and rollbacks in flight")
    ] = 100_000

    # Delay
    message_delay_level: Annotated[
        str, Meta(description="delays of levels 1, 2, ..., each with the unit s, m, h or d")
    ] = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
    flush_delay_offset_interval: Annotated[
        Ms, Meta(description="ms between writes of the delivered offsets of delay levels")
    ] = 1_000
    enable_schedule_message_stats: Annotated[
        bool, Meta(description="count a delayed delivery in the statistics, as a put and as a get")
    ] = True

    # Transactions
    transaction_time_out: Annotated[
        Ms, Meta(description="age of a half message at its first check (ms)")
    ] = 6_000
    transaction_check_max: Annotated[
        int, Meta(ge=0, description="number of checks before a half message is discarded")
    ] = 15
    transaction_check_interval: Annotated[Count, Meta(description="ms between two checks")] = 60_000

    # Registration and persistence
    flush_consumer_offset_interval: Annotated[
        Count, Meta(description="ms between writes of consumer offsets")
    ] = 5_000
    register_name_server_period: Annotated[
        int, Meta(description="ms between registrations; values outside 10000 to 60000 are clamped")
    ] = 30_000
    register_broker_timeout_mills: Annotated[
        Count, Meta(description="timeout of a registration at one name server (ms)")
    ] = 6_000
    force_register: Annotated[bool, Meta(description="register also if no topic has changed")] = (
        True
    )
    compressed_register: Annotated[bool, Meta(description="compress the registration body")] = False
    acl_enable: Annotated[bool, Meta(description="access control; true is not supported yet")] = (
        False
    )

    # Connections to name servers
    use_tls: Annotated[bool, Meta(description="connect to name servers with TLS")] = False
    tls_client_auth_server: Annotated[
        bool, Meta(description="verify the certificates of name servers")
    ] = False
    tls_client_trust_cert_path: Annotated[
        str, Meta(description="PEM file of trusted CA certificates; empty: those of the system")
    ] = ""

    @property
    def client_tls(self) -> SSLContext | None:
        """The TLS context of connections to name servers; None for plain connections."""
        if not self.use_tls:
            return None
        trust = self.tls_client_trust_cert_path
        return client_context(Path(trust) if trust else None, verify=self.tls_client_auth_server)


# The settings that `mqbroker -m` prints.
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
