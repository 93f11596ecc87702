"""The file in which a broker stores the SQL92 conditions of its consumers."""

from cometmq.protocol.java.fastjson import Body
from cometmq.protocol.limits import Int32, Int64


class BloomBits(Body):
    """The bits of a group and topic in a bloom filter of `bit_num` bits."""

    bit_num: Int32 = 0
    bit_pos: list[Int32] = []


class FilterEntry(Body):
    """The condition of a group for a topic. No client has used it since `dead_time`, if set."""

    bloom_filter_data: BloomBits = BloomBits()
    born_time: Int64 = 0
    client_version: Int64 = 0
    consumer_group: str = ""
    dead: bool = False
    dead_time: Int64 = 0
    expression: str = ""
    expression_type: str = ""
    topic: str = ""


class TopicFilters(Body):
    """The conditions of a topic, by group."""

    group_filter_data: dict[str, FilterEntry] = {}
    topic: str = ""


class FilterTable(Body):
    """The content of consumerFilter.json: conditions by topic."""

    filter_data_by_topic: dict[str, TopicFilters] = {}
