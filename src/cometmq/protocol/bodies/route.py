"""Bodies of routes: brokers, queues, clusters, and lists of names."""

from cometmq.protocol.java.fastjson import Body
from cometmq.protocol.limits import Int32, Int64

MASTER_ID = 0  # broker id of a master; slaves have higher ids


class QueueData(Body, kw_only=True):
    """The queues and permission of a topic at one broker."""

    broker_name: str
    perm: Int32
    read_queue_nums: Int32
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32


class BrokerData(Body, kw_only=True):
    """The addresses of a broker's master and slaves, by broker id."""

    broker_addrs: dict[Int64, str] = {}
    broker_name: str
    cluster: str


class TopicRoute(Body):
    """The response body of GET_ROUTEINFO_BY_TOPIC."""

    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = []


class ClusterInfo(Body):
    """The response body of GET_BROKER_CLUSTER_INFO."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class TopicList(Body):
    """Topic names; with system topics, the address of a broker that has the others."""

    broker_addr: str | None = None
    topic_list: list[str] = []


class GroupList(Body):
    """A list of group names."""

    group_list: list[str] = []
