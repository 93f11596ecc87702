"""Which fields of a header name a topic or a consumer group."""

import importlib
import pkgutil

from cometmq.protocol import headers
from cometmq.protocol.headers.base import Header
from cometmq.protocol.headers.client import UnregisterClientHeader
from cometmq.protocol.headers.resources import resource_fields, resources_of
from cometmq.protocol.headers.send import SendHeaderV2

# Every header with a field whose name has "topic" or "group" in it.
EXPECTED = {
    "SendHeader": ("topic", None),
    "SendHeaderV2": ("topic", None),
    "PushReplyHeader": ("topic", None),
    "SendBackHeader": (None, "group"),
    "PullHeader": ("topic", "consumer_group"),
    "QueueHeader": ("topic", None),
    "SearchOffsetHeader": ("topic", None),
    "QueryOffsetHeader": ("topic", "consumer_group"),
    "UpdateOffsetHeader": ("topic", "consumer_group"),
    "UnregisterClientHeader": (None, "consumer_group"),
    "ConsumerGroupHeader": (None, "consumer_group"),
    "ProducerGroupHeader": (None, None),
    "ConsumeStatsHeader": ("topic", "consumer_group"),
    "ResetOffsetHeader": ("topic", "group"),
    "ConsumerStatusHeader": ("topic", "group"),
    "TimeSpanHeader": ("topic", "group"),
    "RunningInfoHeader": (None, "consumer_group"),
    "CorrectionHeader": ("topic", "compare_group"),
    "ConsumeDirectlyHeader": (None, "consumer_group"),
    "CloneOffsetHeader": ("topic", "dest_group"),
    "CreateTopicHeader": ("topic", None),
    "TopicHeader": ("topic", None),
    "DeleteGroupHeader": (None, "group_name"),
    "QueryMessageHeader": ("topic", None),
    "QueryConsumeQueueHeader": ("topic", "consumer_group"),
    "EndTransactionHeader": (None, None),  # the stored half message knows its topic
    "CreateAccountHeader": (None, None),  # permissions, not resources
    "RegisterFilterClassHeader": ("topic", "consumer_group"),
    "RouteHeader": ("topic", None),
    "DeleteTopicHeader": ("topic", None),
    "WipedReplyHeader": (None, None),  # counts
    "AddedReplyHeader": (None, None),
}


def all_headers():
    for module in pkgutil.iter_modules(headers.__path__):
        found = importlib.import_module(f"{headers.__name__}.{module.name}")
        yield from (
            each
            for each in vars(found).values()
            if isinstance(each, type) and issubclass(each, Header)
        )


def test_every_header_with_a_topic_or_a_group_names_it():
    named = {
        shape.__name__: resource_fields(shape)
        for shape in all_headers()
        if any("topic" in name or "group" in name for name in shape.__struct_fields__)
    }
    assert named == EXPECTED


def test_values_are_read_from_a_request():
    send = SendHeaderV2(
        producer_group="P", topic="T", default_topic="TBW102", default_topic_queue_nums=4,
        queue_id=0, sys_flag=0, born_timestamp=0, flag=0,
    )  # fmt: skip
    assert resources_of(send) == ("T", None)
    assert resources_of(UnregisterClientHeader(client_id="c", producer_group="P")) == (None, None)
