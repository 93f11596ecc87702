"""Topics of a broker: which are there from the start, which are made by a send, what is kept."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from cometmq.broker.config import BrokerConfig
from cometmq.broker.tables.topics import READ_WRITE, TopicTable
from cometmq.broker.update_rules import UPDATE_RULES
from cometmq.errors import BadName
from cometmq.protocol.bodies.tables import TopicConfig
from cometmq.settings.live_settings import LiveSettings
from cometmq.testing.clock import ManualClock
from crash.shadow_disk import ShadowDisk

PATH = Path("/store/config/topics.json")
INHERITED = READ_WRITE | 1


def table_on(disk, clock=None, **config):
    settings = BrokerConfig(broker_name="broker-a", broker_ip1="127.0.0.1", **config)
    live = LiveSettings((settings,), UPDATE_RULES, Path("/b.properties"), disk)
    table = TopicTable(disk, PATH, clock or ManualClock(), live)
    table.load()
    return table


def topic(name="T", count=4, **fields):
    return TopicConfig(topic_name=name, read_queue_nums=count, write_queue_nums=count, **fields)


def test_the_topics_that_every_broker_has():
    found = table_on(ShadowDisk()).body.topic_config_table
    assert {name: (each.write_queue_nums, each.perm) for name, each in found.items()} == {
        "BenchmarkTest": (1024, READ_WRITE),
        "DefaultCluster": (16, INHERITED),
        "DefaultCluster_REPLY_TOPIC": (1, READ_WRITE),
        "OFFSET_MOVED_EVENT": (1, READ_WRITE),
        "SCHEDULE_TOPIC_XXXX": (18, READ_WRITE),
        "SELF_TEST_TOPIC": (1, READ_WRITE),
        "TBW102": (8, INHERITED),
        "broker-a": (1, INHERITED),
    }
    traced = table_on(ShadowDisk(), trace_topic_enable=True, msg_trace_topic_name="Traces")
    assert traced.get("Traces") == topic("Traces", 1)
    assert table_on(ShadowDisk(), auto_create_topic_enable=False).get("TBW102") is None


@pytest.mark.parametrize(
    ("asked", "made"), [(1, 1), (4, 4), (8, 8), (9, 8), (2**31 - 1, 8), (0, 0), (-5, 0)]
)
def test_a_send_gets_at_most_the_queues_of_the_pattern(asked, made):
    found = table_on(ShadowDisk()).like("TBW102", "T", asked)
    assert found == topic("T", made, perm=READ_WRITE)


def test_a_topic_is_made_after_its_pattern_by_keep_alone():
    table = table_on(ShadowDisk(), default_topic_queue_nums=3)
    found = table.like("TBW102", "T", 16)
    assert table.get("T") is None
    table.keep(found)
    assert table.get("T") == topic("T", 3)
    table.keep(topic("T", 1))
    assert table.get("T") == topic("T", 3), "one that is there stays as it is"


def test_what_may_not_be_inherited_makes_nothing():
    table = table_on(ShadowDisk(), auto_create_topic_enable=False)
    table.put(topic("Closed"))
    for pattern in ("TBW102", "Closed", "nobody"):
        assert table.like(pattern, "T", 4) is None
    table.put(topic("Open", perm=INHERITED))
    assert table.like("Open", "T", 4) == topic("T", 4)


def test_each_change_has_a_version_and_a_notification():
    clock, told = ManualClock(), []
    table = table_on(ShadowDisk(), clock)
    table.on_change(lambda: told.append(table.version.counter))
    before = table.version.counter
    table.put(topic())
    table.put(topic())
    table.put(topic(count=5))
    assert table.delete("T")
    assert not table.delete("T")
    assert told == [before + 1, before + 2, before + 3]
    assert table.version.timestamp == clock.wall_ms()


def test_what_was_made_is_there_after_a_restart_and_the_pattern_follows_the_settings():
    async def story():
        disk = ShadowDisk()
        table = table_on(disk)
        table.put(topic("T", 5, order=True))
        table.put(topic("BenchmarkTest", 7))
        version = table.version
        await table.file.save()
        again = table_on(disk, default_topic_queue_nums=2)
        assert again.get("T") == topic("T", 5, order=True)
        assert again.get("BenchmarkTest") == topic("BenchmarkTest", 7)
        assert again.get("TBW102").write_queue_nums == 2
        assert again.version == version

    asyncio.run(story())


def test_the_pattern_follows_settings_that_change():
    async def story():
        disk = ShadowDisk()
        settings = BrokerConfig(
            broker_name="broker-a", broker_ip1="127.0.0.1", auto_create_topic_enable=False
        )
        live = LiveSettings((settings,), UPDATE_RULES, Path("/b.properties"), disk)
        table = TopicTable(disk, PATH, ManualClock(), live)
        table.load()
        assert table.like("TBW102", "T", 16) is None
        await live.update(b"autoCreateTopicEnable=true\ndefaultTopicQueueNums=3")
        table.follow_settings()
        assert table.like("TBW102", "T", 16) == topic("T", 3)
        await live.update(b"autoCreateTopicEnable=false")
        table.follow_settings()
        assert table.like("TBW102", "T", 16) is None

    asyncio.run(story())


def test_the_topic_of_a_retry_is_made_once():
    table = table_on(ShadowDisk())
    made = table.ensure("%RETRY%G", 2, unit=True)
    assert (made.write_queue_nums, made.topic_sys_flag) == (2, 1)
    assert table.ensure("%RETRY%G", 9) is made


@pytest.mark.parametrize("name", ["", "../x", "a b", "n" * 128, "T@G"])
def test_a_bad_name_is_never_a_topic(name):
    table = table_on(ShadowDisk())
    before = table.body
    with pytest.raises(BadName):
        table.put(topic(name))
    with pytest.raises(BadName):
        table.ensure(name, 1)
    assert table.body == before


def test_get_goes_on_to_answer_after_a_load():
    disk = ShadowDisk()
    table = table_on(disk)
    get = table.get
    table.put(topic())
    table.load()
    assert get("T") == msgspec.structs.replace(topic())
