"""Topic and group configurations, offsets, and the version of a table."""

from cometmq.protocol.flags import Perm
from cometmq.protocol.java.fastjson import Body
from cometmq.protocol.limits import Int32, Int64


class DataVersion(Body):
    """Of a broker's table: two versions are the same if time and count are."""

    counter: Int64 = 0
    timestamp: Int64 = 0


class TopicConfig(Body):
    """A topic as one broker serves it."""

    order: bool = False
    perm: Int32 = Perm.READ | Perm.WRITE
    read_queue_nums: Int32 = 16
    topic_filter_type: str = "SINGLE_TAG"
    topic_name: str = ""
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32 = 16


class TopicConfigTable(Body):
    """All topics of a broker."""

    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = {}


class GroupConfig(Body):
    """A consumer group as one broker serves it."""

    broker_id: Int64 = 0
    consume_broadcast_enable: bool = True
    consume_enable: bool = True
    consume_from_min_enable: bool = True
    group_name: str = ""
    notify_consumer_ids_changed_enable: bool = True
    retry_max_times: Int32 = 16
    retry_queue_nums: Int32 = 1
    which_broker_when_consume_slowly: Int64 = 1


class GroupConfigTable(Body):
    """All groups of a broker."""

    data_version: DataVersion = DataVersion()
    subscription_group_table: dict[str, GroupConfig] = {}


class ConsumerOffsetTable(Body):
    """`topic@group` to queue id to consumed offset."""

    offset_table: dict[str, dict[Int32, Int64]] = {}


class DelayOffsetTable(Body):
    """GET_ALL_DELAY_OFFSET: delay level to the offset up to which its messages are delivered."""

    offset_table: dict[Int32, Int64] = {}


class KeyValues(Body):
    """Names and texts."""

    table: dict[str, str] = {}


class KvConfigTable(Body):
    """The name server's key-value file: namespace to key to value."""

    config_table: dict[str, dict[str, str]] = {}
