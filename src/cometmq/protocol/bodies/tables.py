"""Topic and group configurations, offsets, and the version of a table."""

from cometmq.protocol.flags import Perm
from cometmq.protocol.java.fastjson import Body
from cometmq.protocol.limits import Int32, Int64


class DataVersion(Body):
    """The version of a table: two versions are equal if time and counter are equal."""

    counter: Int64 = 0
    timestamp: Int64 = 0


class TopicConfig(Body):
    """The settings of a topic at one broker."""

    order: bool = False
    perm: Int32 = Perm.READ | Perm.WRITE
    read_queue_nums: Int32 = 16
    topic_filter_type: str = "SINGLE_TAG"
    topic_name: str = ""
    topic_sys_flag: Int32 = 0
    write_queue_nums: Int32 = 16


class TopicConfigTable(Body):
    """The topics of a broker, by name."""

    data_version: DataVersion = DataVersion()
    topic_config_table: dict[str, TopicConfig] = {}


class GroupConfig(Body):
    """The settings of a consumer group at one broker."""

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
    """The consumer groups of a broker, by name."""

    data_version: DataVersion = DataVersion()
    subscription_group_table: dict[str, GroupConfig] = {}


class ConsumerOffsetTable(Body):
    """The consumer offsets by `topic@group` and queue id."""

    offset_table: dict[str, dict[Int32, Int64]] = {}


class DelayOffsetTable(Body):
    """The response body of GET_ALL_DELAY_OFFSET: the next offset of each delay level."""

    offset_table: dict[Int32, Int64] = {}


class KeyValues(Body):
    """A map from names to texts."""

    table: dict[str, str] = {}


class KvConfigTable(Body):
    """The key-value file of a name server: values by namespace and key."""

    config_table: dict[str, dict[str, str]] = {}
