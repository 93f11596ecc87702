"""Who serves what: brokers, queues, routes, clusters, and lists of names."""

from cometmq.protocol.java.fastjson import Body
from cometmq.protocol.limits import Int32, Int64

MASTER_ID = 0  # among the nodes of a broker; slaves have higher ones


class QueueData(Body, kw_only=True):
    """How many queues of a topic one broker has, and what may be done with them."""

    broker_name: str
    perm: Int32
    read_queue_nums: Int32
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32


class BrokerData(Body, kw_only=True):
    """The nodes of one broker name, by id."""

    broker_addrs: dict[Int64, str] = {}
    broker_name: str
    cluster: str


class TopicRoute(Body):
    """GET_ROUTEINFO_BY_TOPIC."""

    broker_datas: list[BrokerData] = []
    filter_server_table: dict[str, list[str]] = {}
    order_topic_conf: str | None = None
    queue_datas: list[QueueData] = []


class ClusterInfo(Body):
    """GET_BROKER_CLUSTER_INFO."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class TopicList(Body):
    """Names of topics; system topics come with a broker that knows the others."""

    broker_addr: str | None = None
    topic_list: list[str] = []


class GroupList(Body):
    """Names of groups."""

    group_list: list[str] = []
