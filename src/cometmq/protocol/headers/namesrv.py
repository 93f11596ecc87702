"""Headers of requests to name servers: registration, routes, key-value configuration."""

from cometmq.protocol.headers.base import Header
from cometmq.protocol.limits import Int32, Int64


class PutKvHeader(Header):
    """The fields of a PUT_KV_CONFIG request."""

    namespace: str
    key: str
    value: str


class KvHeader(Header):
    """The fields of GET_KV_CONFIG and DELETE_KV_CONFIG."""

    namespace: str
    key: str


class KvReplyHeader(Header):
    """The fields of the response to GET_KV_CONFIG."""

    value: str | None = None


class KvListHeader(Header):
    """The fields of a GET_KVLIST_BY_NAMESPACE request."""

    namespace: str


class RegisterBrokerHeader(Header):
    """The fields of REGISTER_BROKER. A crc of 0 means that it is not set."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    compressed: bool = False
    body_crc32: Int32 = 0


class RegisterBrokerReplyHeader(Header):
    """The response to REGISTER_BROKER: the addresses at which a slave finds its master."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class BrokerHeader(Header):
    """The fields of UNREGISTER_BROKER and QUERY_DATA_VERSION."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class DataVersionReplyHeader(Header):
    """The fields of the response to QUERY_DATA_VERSION."""

    changed: bool


class RouteHeader(Header):
    """The fields of a GET_ROUTEINFO_BY_TOPIC request."""

    topic: str
    accept_standard_json_only: bool | str = False  # see `is_true`


class WritePermHeader(Header):
    """The fields of WIPE_WRITE_PERM_OF_BROKER and ADD_WRITE_PERM_OF_BROKER."""

    broker_name: str


class WipedReplyHeader(Header):
    """The fields of the response to WIPE_WRITE_PERM_OF_BROKER."""

    wipe_topic_count: Int32


class AddedReplyHeader(Header):
    """The fields of the response to ADD_WRITE_PERM_OF_BROKER."""

    add_topic_count: Int32


class DeleteTopicHeader(Header):
    """The fields of DELETE_TOPIC_IN_NAMESRV; without a cluster it deletes from all."""

    topic: str
    cluster_name: str | None = None


class ClusterHeader(Header):
    """The fields of a GET_TOPICS_BY_CLUSTER request."""

    cluster: str
