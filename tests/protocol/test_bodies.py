"""Each JSON body that Apache's classes write is read, and written back byte for byte."""

import json

import pytest

from cometmq.errors import Malformed
from cometmq.protocol.bodies.consumer import ResetOffsets
from cometmq.protocol.bodies.heartbeat import (
    ConsumeFrom,
    ConsumerData,
    ConsumeType,
    Heartbeat,
    MessageModel,
    ProducerData,
    Subscription,
    decode_heartbeat,
)
from cometmq.protocol.bodies.queues import LockQueues, MessageQueue
from cometmq.protocol.bodies.route import TopicRoute
from cometmq.protocol.bodies.stats import TopicOffset, TopicStats
from cometmq.protocol.bodies.tables import TopicConfig, TopicConfigTable
from cometmq.protocol.java.fastjson import Body, dumps, loads
from protocol.golden import BODIES, BODY_OF_CLASS, bytes_of, each, entries

# What our text cannot be equal to, and why.
DIFFERENT = {
    "TopicRouteData/empty": "lists that are null there are empty here, and so written",
    "TopicRouteData/empty/standard": "as above",
    "ClusterInfo/null": "maps that are null there are empty here, and so written",
    "BrokerStatsData/shared": "$ref: we write an object as often as it occurs",
    "GetConsumerStatusBody/shared": "$ref, as above",
}


def shape_of(entry):
    return BODY_OF_CLASS[entry["name"].split("/")[0]]


def plain(value):
    """Our value in the form in which the golden files hold theirs; null and left out are one."""
    if isinstance(value, MessageQueue):
        return value.fields()
    if isinstance(value, Body):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        return {wire: plain(getattr(value, name)) for name, wire in names}
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, dict):
        return [{"key": plain(key), "value": plain(item)} for key, item in value.items()]
    if isinstance(value, list):
        return [plain(item) for item in value]
    return getattr(value, "value", value)


def without_nulls(value):
    """And without fields that Apache's classes do not write, or write and have no value of."""
    unwritten = {
        "random", "filterClassSource", "consumeTimeStampStr", "maxTimeStampStr", "minTimeStampStr",
    }  # fmt: skip
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if key not in unwritten}
        return {key: without_nulls(item) for key, item in kept.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def empty_maps_as_maps(value):
    return json.loads(json.dumps(value).replace("[]", "{}"))


def test_every_golden_body_has_a_struct():
    assert {entry["name"].split("/")[0] for entry in entries("bodies")} == BODY_OF_CLASS.keys()
    assert DIFFERENT.keys() <= {entry["name"] for entry in entries("bodies")}


@each("bodies")
def test_values(entry):
    ours = without_nulls(plain(loads(bytes_of(entry), shape_of(entry))))
    theirs = without_nulls(entry["value"])
    if "empty" in entry["name"] or "null" in entry["name"]:
        assert theirs.items() <= ours.items()
    else:
        assert empty_maps_as_maps(ours) == empty_maps_as_maps(theirs)


@each("bodies")
def test_text(entry):
    standard = entry["name"].endswith("/standard")
    written = dumps(loads(bytes_of(entry), shape_of(entry)), standard=standard)
    if entry["name"] in DIFFERENT:
        assert written != bytes_of(entry), "no longer different: take it off the list"
        assert loads(written, shape_of(entry)) == loads(bytes_of(entry), shape_of(entry))
    else:
        assert written.decode() == entry["text"]


@each("bodies", "TopicRouteData")
def test_the_standard_form_of_a_route_is_json_for_everyone(entry):
    written = dumps(loads(bytes_of(entry), TopicRoute), standard=True)
    assert written.isascii()
    assert loads(json.dumps(json.loads(written)).encode(), TopicRoute) == loads(
        bytes_of(entry), TopicRoute
    )


@pytest.mark.parametrize("shape", BODIES)
def test_fields_stand_in_the_order_of_their_wire_names(shape):
    assert list(shape.__struct_encode_fields__) == sorted(shape.__struct_encode_fields__)
    assert shape.__struct_config__.frozen


# What other clients send --------------------------------------------------------------------------

CPP_HEARTBEAT = (
    b'{"clientID":"10.0.0.5@1","consumerDataSet":[{"consumeFromWhere":0,"consumeType":1,'
    b'"groupName":"g","messageModel":1,"subscriptionDataSet":[{"subString":"*",'
    b'"subVersion":"1700000000000","topic":"t"}]}],"producerDataSet":[{"groupName":"p"}]}\n'
)


def test_a_heartbeat_with_ordinals():
    assert decode_heartbeat(CPP_HEARTBEAT) == Heartbeat(
        client_id="10.0.0.5@1",
        consumer_data_set=[
            ConsumerData(
                consume_from_where=ConsumeFrom.LAST_OFFSET,
                consume_type=ConsumeType.PASSIVELY,
                group_name="g",
                message_model=MessageModel.CLUSTERING,
                subscription_data_set=[Subscription(sub_version=1700000000000, topic="t")],
            )
        ],
        producer_data_set=[ProducerData(group_name="p")],
    )


@pytest.mark.parametrize(("ordinal", "model"), list(enumerate(MessageModel)))
def test_every_ordinal(ordinal, model):
    text = CPP_HEARTBEAT.replace(b'"messageModel":1', b'"messageModel":%d' % ordinal)
    assert decode_heartbeat(text).consumer_data_set[0].message_model is model


@pytest.mark.parametrize("ordinal", [b"2", b"-1", b'"NOBODY"', b"[]", b"1.5"])
def test_no_such_ordinal(ordinal):
    with pytest.raises(Malformed):
        decode_heartbeat(CPP_HEARTBEAT.replace(b'"messageModel":1', b'"messageModel":' + ordinal))


@each("bodies", "HeartbeatData")
def test_heartbeats_by_name(entry):
    assert decode_heartbeat(bytes_of(entry)) == loads(bytes_of(entry), Heartbeat)


def test_nulls_are_left_out():
    text = b'{"clientID":"c","consumerDataSet":null,"producerDataSet":[{"groupName":"p","x":null}]}'
    expected = Heartbeat(client_id="c", producer_data_set=[ProducerData(group_name="p")])
    assert decode_heartbeat(text) == loads(text, Heartbeat) == expected
    with pytest.raises(Malformed):
        loads(b'{"clientID":null}', Heartbeat)


def test_nulls_beside_keys_that_are_no_strings():
    text = (
        b'{"brokerDatas":[{"brokerAddrs":{0:"a"},"brokerName":"b","cluster":"c"}],'
        b'"queueDatas":null}'
    )
    (broker,) = loads(text, TopicRoute).broker_datas
    assert broker.broker_addrs == {0: "a"}
    text = b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:7},"x":null}'
    assert loads(text, ResetOffsets).offset_table == {MessageQueue("t", "b", 0): 7}
    text = text.replace(b":7}", b':{"maxOffset":7,"minOffset":null}}')
    assert loads(text, TopicStats).offset_table == {
        MessageQueue("t", "b", 0): TopicOffset(max_offset=7)
    }


def test_a_body_may_end_with_a_newline():
    assert loads(b'{"clientID":"c"}\n', Heartbeat) == Heartbeat(client_id="c")


def test_unknown_fields_are_passed_over():
    assert loads(b'{"clientID":"c","new":{"a":[1]}}', Heartbeat) == Heartbeat(client_id="c")


@pytest.mark.parametrize(
    "queue",
    [
        b'{"brokerName":"b","queueId":2147483648,"topic":"t"}',
        b'{"brokerName":"b","queueId":"x","topic":"t"}',
        b'{"brokerName":"b","topic":"t"}',
        b'{"brokerName":null,"queueId":0,"topic":"t"}',
        b"[1]",
        b'"text"',
        b"7",
    ],
)
def test_bad_queues_are_rejected(queue):
    with pytest.raises(Malformed):
        loads(b'{"clientId":"c","consumerGroup":"g","mqSet":[%b]}' % queue, LockQueues)


def test_queues_are_values():
    queue = MessageQueue("t", "b", 1)
    assert queue == MessageQueue("t", "b", 1) and hash(queue) == hash(MessageQueue("t", "b", 1))
    assert queue != MessageQueue("t", "b", 2) and queue != ("t", "b", 1)
    assert sorted([MessageQueue("t", "b", 10), MessageQueue("t", "b", 9), queue])[0] is queue


def test_a_number_that_java_cannot_hold():
    with pytest.raises(Malformed):
        loads(b'{"topicConfigTable":{"t":{"perm":2147483648}}}', TopicConfigTable)
    assert TopicConfig().perm == 6
