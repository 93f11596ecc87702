"""Name server: register, routes, key-value configuration, permissions."""

from cometmq.protocol.headers.base import Header
from cometmq.protocol.limits import Int32, Int64


class PutKvHeader(Header):
    """PUT_KV_CONFIG."""

    namespace: str
    key: str
    value: str


class KvHeader(Header):
    """GET_KV_CONFIG and DELETE_KV_CONFIG."""

    namespace: str
    key: str


class KvReplyHeader(Header):
    """Of GET_KV_CONFIG."""

    value: str | None = None


class KvListHeader(Header):
    """GET_KVLIST_BY_NAMESPACE."""

    namespace: str


class RegisterBrokerHeader(Header):
    """REGISTER_BROKER. A crc of 0 means that none was made."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    compressed: bool = False
    body_crc32: Int32 = 0


class RegisterBrokerReplyHeader(Header):
    """Where a slave finds its master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class BrokerHeader(Header):
    """UNREGISTER_BROKER and QUERY_DATA_VERSION."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class DataVersionReplyHeader(Header):
    """Of QUERY_DATA_VERSION."""

    changed: bool


class RouteHeader(Header):
    """GET_ROUTEINFO_BY_TOPIC."""

    topic: str
    accept_standard_json_only: bool | str = False  # see `is_true`


class WritePermHeader(Header):
    """WIPE_WRITE_PERM_OF_BROKER and ADD_WRITE_PERM_OF_BROKER."""

    broker_name: str


class WipedReplyHeader(Header):
    """Of WIPE_WRITE_PERM_OF_BROKER."""

    wipe_topic_count: Int32


class AddedReplyHeader(Header):
    """Of ADD_WRITE_PERM_OF_BROKER."""

    add_topic_count: Int32


class DeleteTopicHeader(Header):
    """DELETE_TOPIC_IN_NAMESRV; without a cluster, everywhere."""

    topic: str
    cluster_name: str | None = None


class ClusterHeader(Header):
    """GET_TOPICS_BY_CLUSTER."""

    cluster: str
