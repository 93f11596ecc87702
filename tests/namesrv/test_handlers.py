"""Each of the twenty requests, as a peer sees its answer."""

import json

import pytest

from cometmq.protocol.bodies.register import RegisterBroker, encode_register
from cometmq.protocol.bodies.tables import DataVersion, TopicConfig, TopicConfigTable
from cometmq.protocol.codes import VERSION_4_9_4, RequestCode, ResponseCode
from cometmq.protocol.headers import namesrv as headers
from cometmq.protocol.java.fastjson import dumps
from cometmq.protocol.records.message import body_crc

TOPICS = TopicConfigTable(
    data_version=DataVersion(counter=1, timestamp=2),
    topic_config_table={"T": TopicConfig(topic_name="T", read_queue_nums=4, write_queue_nums=8)},
)


def register(desk, *, compressed=False, body=None, version=407, **changed):
    if body is None:
        body = encode_register(RegisterBroker(topics=TOPICS), compressed=compressed)
    fields = {
        "broker_name": "b", "broker_addr": "10.0.0.1:10911", "cluster_name": "c",
        "ha_server_addr": "10.0.0.1:10912", "broker_id": 0, "compressed": compressed,
        "body_crc32": body_crc(body),
    }  # fmt: skip
    header = headers.RegisterBrokerHeader(**(fields | changed))
    return desk.ask(RequestCode.REGISTER_BROKER, header, body, version)


def route(desk, topic="T", **asked):
    reply = desk.ask(
        RequestCode.GET_ROUTEINFO_BY_TOPIC,
        headers.RouteHeader(topic=topic, **{k: v for k, v in asked.items() if k != "version"}),
        version=asked.get("version", 407),
    )
    return reply.body if reply.code == 0 else reply.code


def test_all_twenty_codes_are_in_the_table(desk):
    assert len(desk.routes) == 20


@pytest.mark.parametrize("compressed", [False, True])
def test_registered_topics_have_routes(desk, compressed):
    assert register(desk, compressed=compressed).code == 0
    found = json.loads(route(desk))
    assert found["queueDatas"] == [
        {"brokerName": "b", "perm": 6, "readQueueNums": 4, "topicSysFlag": 0, "writeQueueNums": 8}
    ]
    assert found["brokerDatas"][0]["brokerAddrs"] == {"0": "10.0.0.1:10911"}


def test_old_clients_get_bare_number_keys_and_new_ones_standard_json(desk):
    register(desk)
    assert b"{0:" in route(desk, version=VERSION_4_9_4 - 1)
    assert b'{"0":' in route(desk, version=VERSION_4_9_4)
    assert b'{"0":' in route(desk, version=0, accept_standard_json_only=True)


def test_a_cached_route_follows_every_change(desk):
    register(desk)
    first = route(desk)
    assert route(desk) is first, "the second answer is the first one's bytes"
    desk.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, headers.WritePermHeader(broker_name="b"))
    assert b'"perm":4' in route(desk)
    desk.table.drop(desk.link)
    assert route(desk) == ResponseCode.TOPIC_NOT_EXIST


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"body_crc32": 12345}, "crc32 not match"),
        ({"body": b"not json"}, "register body"),
        ({"body": b'{"topicConfigSerializeWrapper":3}'}, "register body"),
        ({"body": b"\x78\x9c junk", "compressed": True}, "register body"),
    ],
)
def test_a_bad_register_is_refused_and_changes_nothing(desk, change, reason):
    reply = register(desk, **change)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert reason in reply.remark
    assert desk.table.topics() == []
    assert desk.table.cluster_info().cluster_addr_table == {}


def test_a_register_without_a_crc_or_a_body_is_taken(desk):
    assert register(desk, body_crc32=0).code == 0
    assert register(desk, body=b"", broker_id=1, broker_addr="10.0.0.2:10911").code == 0


def test_an_ancient_register_has_topics_alone_as_its_body(desk):
    assert register(desk, body=dumps(TOPICS), version=36).code == 0
    assert desk.table.topics() == ["T"]


def test_the_register_reply_carries_order_topics_and_the_master(desk):
    put = headers.PutKvHeader(namespace="ORDER_TOPIC_CONFIG", key="T", value="b:4")
    assert register(desk).body == b""
    desk.ask(RequestCode.PUT_KV_CONFIG, put)
    reply = register(desk, broker_id=1, broker_addr="10.0.0.2:10911", body=b"")
    assert json.loads(reply.body) == {"table": {"T": "b:4"}}
    assert reply.header == headers.RegisterBrokerReplyHeader(
        ha_server_addr="10.0.0.1:10912", master_addr="10.0.0.1:10911"
    )


def test_an_order_conf_is_in_the_route_only_if_enabled(desk):
    register(desk)
    put = headers.PutKvHeader(namespace="ORDER_TOPIC_CONFIG", key="T", value="b:4")
    desk.ask(RequestCode.PUT_KV_CONFIG, put)
    assert b"orderTopicConf" not in route(desk)
    desk.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=b"orderMessageEnable=true\n")
    assert json.loads(route(desk))["orderTopicConf"] == "b:4"


def test_a_broker_asks_whether_its_version_is_known(desk):
    asking = headers.BrokerHeader(
        broker_name="b", broker_addr="10.0.0.1:10911", cluster_name="c", broker_id=0
    )

    def ask(version):
        reply = desk.ask(RequestCode.QUERY_DATA_VERSION, asking, dumps(version))
        return reply.header.changed, reply.body

    assert ask(TOPICS.data_version) == (True, b"")
    register(desk)
    assert ask(TOPICS.data_version) == (False, dumps(TOPICS.data_version))
    assert ask(DataVersion(counter=9)) == (True, dumps(TOPICS.data_version))
    assert desk.ask(RequestCode.UNREGISTER_BROKER, asking).code == 0
    assert ask(TOPICS.data_version) == (True, b"")


def test_key_values_are_put_got_listed_and_deleted(desk):
    item = headers.KvHeader(namespace="N", key="k")
    missing = desk.ask(RequestCode.GET_KV_CONFIG, item)
    assert (missing.code, "N" in missing.remark) == (ResponseCode.QUERY_NOT_FOUND, True)
    listing = headers.KvListHeader(namespace="N")
    listed = desk.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, listing)
    assert listed.code == ResponseCode.QUERY_NOT_FOUND
    put = headers.PutKvHeader(namespace="N", key="k", value="v")
    assert desk.ask(RequestCode.PUT_KV_CONFIG, put).code == 0
    assert desk.ask(RequestCode.GET_KV_CONFIG, item).header.value == "v"
    listed = desk.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, listing)
    assert json.loads(listed.body) == {"table": {"k": "v"}}
    assert desk.ask(RequestCode.DELETE_KV_CONFIG, item).code == 0
    assert desk.ask(RequestCode.DELETE_KV_CONFIG, item).code == 0
    assert desk.ask(RequestCode.GET_KV_CONFIG, item).code == ResponseCode.QUERY_NOT_FOUND


def test_lists_of_topics(desk):
    register(desk)

    def listed(code, header=None):
        return json.loads(desk.ask(code, header).body)

    assert listed(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == {"topicList": ["T"]}
    by_cluster = RequestCode.GET_TOPICS_BY_CLUSTER
    assert listed(by_cluster, headers.ClusterHeader(cluster="c")) == {"topicList": ["T"]}
    assert listed(by_cluster, headers.ClusterHeader(cluster="x")) == {"topicList": []}
    assert listed(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_NS) == {
        "brokerAddr": "10.0.0.1:10911",
        "topicList": ["c", "b"],
    }
    for code in (
        RequestCode.GET_UNIT_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_TOPIC_LIST,
        RequestCode.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST,
    ):
        assert listed(code) == {"topicList": []}
    assert desk.ask(RequestCode.GET_BROKER_CLUSTER_INFO).body == (
        b'{"brokerAddrTable":{"b":{"brokerAddrs":{0:"10.0.0.1:10911"},"brokerName":"b",'
        b'"cluster":"c"}},"clusterAddrTable":{"c":["b"]}}'
    )
    delete = headers.DeleteTopicHeader(topic="T")
    assert desk.ask(RequestCode.DELETE_TOPIC_IN_NAMESRV, delete).code == 0
    assert listed(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER) == {"topicList": []}


def test_write_permission_is_wiped_and_given_back(desk):
    register(desk)
    broker = headers.WritePermHeader(broker_name="b")
    assert desk.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, broker).header.wipe_topic_count == 1
    assert b'"perm":4' in route(desk)
    assert desk.ask(RequestCode.ADD_WRITE_PERM_OF_BROKER, broker).header.add_topic_count == 1
    assert b'"perm":6' in route(desk)
    nobody = headers.WritePermHeader(broker_name="x")
    assert desk.ask(RequestCode.WIPE_WRITE_PERM_OF_BROKER, nobody).header.wipe_topic_count == 0


def test_an_unknown_code_is_answered_with_3(desk):
    assert desk.ask(9999).code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


def test_a_missing_field_is_named(desk):
    reply = desk.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    assert reply.code == ResponseCode.SYSTEM_ERROR
    assert "topic" in reply.remark
