"""Topics as administrators ask for them."""

import json

import pytest

from broker.desk import at_desk
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.route import GroupList, TopicList
from cometmq.protocol.bodies.stats import TopicStats
from cometmq.protocol.bodies.tables import ConsumerOffsetTable, TopicConfigTable
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.topic import CreateTopicHeader, TopicHeader
from cometmq.protocol.java.fastjson import loads

GOOD = {
    "topic": "T", "default_topic": "TBW102", "read_queue_nums": 4, "write_queue_nums": 8,
    "perm": 6, "topic_filter_type": "SINGLE_TAG", "order": True,
}  # fmt: skip


def create(**changes):
    return CreateTopicHeader(**(GOOD | changes))


def test_a_topic_is_on_disk_when_its_making_is_answered(tmp_path):
    async def story(desk):
        told = []
        desk.topics.on_change(lambda: told.append(1))
        reply = await desk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create(topic_sys_flag=1))
        assert (reply.code, told) == (0, [1])
        kept = json.loads((tmp_path / "config/topics.json").read_bytes())
        assert kept["topicConfigTable"]["T"] == {
            "order": False, "perm": 6, "readQueueNums": 4, "topicFilterType": "SINGLE_TAG",
            "topicName": "T", "topicSysFlag": 1, "writeQueueNums": 8,
        }  # fmt: skip
        await desk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create(perm=4))
        assert desk.topics.get("T").perm == 4

    at_desk(tmp_path, story)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"topic": "SCHEDULE_TOPIC_XXXX"}, "system topic"),
        ({"topic": "broker-a"}, "system topic"),
        ({"topic": "DefaultCluster_REPLY_TOPIC"}, "system topic"),
        ({"topic": "../etc"}, "may contain only"),
        ({"topic": "a" * 128}, "128 characters"),
        ({"read_queue_nums": -1}, "readQueueNums"),
        ({"write_queue_nums": -1}, "writeQueueNums"),
        ({"write_queue_nums": 65_537}, "writeQueueNums"),
        ({"topic_filter_type": "NO_TAG"}, "topicFilterType"),
    ],
)
def test_a_bad_topic_is_refused_and_changes_nothing(tmp_path, changes, named):
    async def story(desk):
        before = desk.topics.body
        reply = await desk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create(**changes))
        assert reply.code == ResponseCode.SYSTEM_ERROR
        assert named in reply.remark
        assert desk.topics.body == before

    at_desk(tmp_path, story)


def test_a_deleted_topic_leaves_nothing_behind(tmp_path):
    async def story(desk):
        desk.make_topic("T")
        desk.make_topic("Other")
        desk.put("T")
        desk.put("Other")
        desk.offsets.commit("G", "T", 0, 1)
        desk.offsets.commit("G", "Other", 0, 1)
        reply = await desk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic="T"))
        assert reply.code == 0
        assert desk.topics.get("T") is None
        assert desk.store.bounds("T", 0) == (0, 0)
        assert desk.store.bounds("Other", 0) == (0, 1)
        kept = loads((tmp_path / "config/consumerOffset.json").read_bytes(), ConsumerOffsetTable)
        assert kept.offset_table == {"Other@G": {0: 1}}
        kept = json.loads((tmp_path / "config/topics.json").read_bytes())
        assert "T" not in kept["topicConfigTable"]
        again = await desk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic="T"))
        assert again.code == 0

    at_desk(tmp_path, story)


def test_system_topics_cannot_be_deleted(tmp_path):
    async def story(desk):
        for name in ("TBW102", "DefaultCluster", "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_x"):
            reply = await desk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, TopicHeader(topic=name))
            assert reply.code == ResponseCode.SYSTEM_ERROR, name
        assert desk.topics.get("TBW102") is not None

    at_desk(tmp_path, story)


def test_all_topics(tmp_path):
    async def story(desk):
        desk.make_topic("T", 3)
        reply = await desk.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
        table = loads(reply.body, TopicConfigTable)
        assert table.data_version == desk.topics.version
        assert table.topic_config_table["T"].read_queue_nums == 3

    at_desk(tmp_path, story)


def test_bounds_and_last_times_of_a_topic(tmp_path):
    async def story(desk):
        desk.make_topic("T", 2)
        desk.put("T", 1)
        await desk.clock.advance(500)
        desk.put("T", 1)
        reply = await desk.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic="T"))
        table = loads(reply.body, TopicStats).offset_table
        empty, full = (table[MessageQueue("T", "broker-a", queue_id)] for queue_id in (0, 1))
        assert (empty.min_offset, empty.max_offset, empty.last_update_timestamp) == (0, 0, 0)
        assert (full.min_offset, full.max_offset) == (0, 2)
        assert full.last_update_timestamp == desk.clock.wall_ms()
        reply = await desk.ask(RequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic="U"))
        assert reply.code == ResponseCode.TOPIC_NOT_EXIST

    at_desk(tmp_path, story)


def test_who_consumes_a_topic_online_or_once(tmp_path):
    async def story(desk):
        desk.make_topic("T")
        await desk.join("online", "T")
        await desk.join("elsewhere", "U", client_id="c2", port=9)
        desk.offsets.commit("once", "T", 0, 1)
        reply = await desk.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicHeader(topic="T"))
        assert loads(reply.body, GroupList).group_list == ["once", "online"]

    at_desk(tmp_path, story)


def test_system_topics_are_listed(tmp_path):
    async def story(desk):
        reply = await desk.ask(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
        names = loads(reply.body, TopicList).topic_list
        assert {"TBW102", "broker-a", "DefaultCluster", "RMQ_SYS_TRANS_HALF_TOPIC"} < set(names)
        assert names == sorted(names)

    at_desk(tmp_path, story)


def test_queues_of_unknown_topics_are_cleaned_those_of_the_system_stay(tmp_path):
    async def story(desk):
        desk.make_topic("T")
        for name in ("T", "gone", "RMQ_SYS_TRANS_HALF_TOPIC"):
            desk.put(name)
        await desk.store.flush()
        assert (await desk.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == 0
        ends = [desk.store.bounds(name, 0)[1] for name in ("T", "gone", "RMQ_SYS_TRANS_HALF_TOPIC")]
        assert ends == [1, 0, 1]

    at_desk(tmp_path, story)


def test_files_past_their_time_go_by_hand_and_not_by_tidying_queues(tmp_path):
    async def story(desk):
        desk.make_topic("T")
        for _ in range(10):
            desk.put("T", body=bytes(1000))
        await desk.store.flush()
        start, _ = desk.store.log_bounds
        desk.clock.jump(10**12)  # far past what any file's own time says
        assert (await desk.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)).code == 0
        assert desk.store.log_bounds[0] == start
        assert (await desk.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)).code == 0
        assert desk.store.log_bounds[0] > start
        assert desk.store.bounds("T", 0)[0] > 0

    at_desk(
        tmp_path, story,
        store_settings={"mapped_file_size_commit_log": 4096, "file_reserved_time": 1},
    )  # fmt: skip
