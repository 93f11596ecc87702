"""The file in which a broker keeps the SQL conditions of its consumers."""

from cometmq.protocol.java.fastjson import Body
from cometmq.protocol.limits import Int32, Int64


class BloomBits(Body):
    """Which bits of so many stand for a group and a topic."""

    bit_num: Int32 = 0
    bit_pos: list[Int32] = []


class FilterEntry(Body):
    """What one group wants of one topic. Dead: nobody asks for it any more, since `dead_time`."""

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
    """By group."""

    group_filter_data: dict[str, FilterEntry] = {}
    topic: str = ""


class FilterTable(Body):
    """consumerFilter.json: by topic."""

    filter_data_by_topic: dict[str, TopicFilters] = {}
