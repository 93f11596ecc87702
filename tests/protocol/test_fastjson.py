"""The JSON dialect, where the golden bodies do not reach."""

import json

import pytest

from cometmq.errors import Malformed, TooLarge
from cometmq.protocol.bodies.consumer import ConsumerStatus, ResetOffsets
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.route import BrokerData, ClusterInfo, TopicRoute
from cometmq.protocol.bodies.stats import BrokerStats, ConsumeStats, StatsItem
from cometmq.protocol.java.fastjson import dumps, loads, standard_json
from cometmq.protocol.limits import RESOLVED_PARTS_MAX

QUEUE = '{"brokerName":"b","queueId":0,"topic":"t"}'

OTHER = QUEUE.replace("0", "1")


@pytest.mark.parametrize(
    ("dialect", "plain"),
    [
        ('{0:"a",1:"b"}', {"0": "a", "1": "b"}),
        ("{-1:1}", {"-1": 1}),
        ("{name:1}", {"name": 1}),
        (f"{{{QUEUE}:5}}", {QUEUE: 5}),
        (f'{{ "x" : {{ {QUEUE} : [1, 2.5e3] }} }}', {"x": {QUEUE: [1, 2500.0]}}),
        (f"{{{QUEUE}:{{0:1}},{OTHER}:null}}", {QUEUE: {"0": 1}, OTHER: None}),
        ('{"a{b}:1,":"{0:1}"}', {"a{b}:1,": "{0:1}"}),
        (r'{"q\"{":1}', {'q"{': 1}),
        ("[true,false,null,-1.5E-7]", [True, False, None, -1.5e-7]),
        ("[]", []),
        ("{}", {}),
    ],
)  # fmt: skip
def test_standard_json(dialect, plain):
    assert json.loads(standard_json(dialect)) == plain


@pytest.mark.parametrize("text", ["{", "}", "{]", '{"a":1', '"a', "{0:1}}", '{"a":"b'])
def test_malformed_json_is_rejected(text):
    with pytest.raises(Malformed):
        loads(text.encode(), ConsumeStats)


def test_keys_in_keys_are_refused():
    """Quoting each level in the next would double the text forty times."""
    with pytest.raises(Malformed, match="a key inside a key"):
        loads(("{" * 40 + '"a":1}' + ":1}" * 39).encode(), ConsumeStats)


def test_depth():
    for text in (b"[" * 200_000, b"{0:" * 200_000, b'{"a":' * 100_000 + b"0" + b"}" * 100_000):
        with pytest.raises(Malformed):
            loads(text, ConsumeStats)


def test_an_object_key_is_read_from_an_object_and_from_its_text():
    expected = ResetOffsets(offset_table={MessageQueue("t", "b", 0): 7})
    assert loads(f'{{"offsetTable":{{{QUEUE}:7}}}}'.encode(), ResetOffsets) == expected
    quoted = json.dumps({"offsetTable": {QUEUE: 7}}).encode()
    assert loads(quoted, ResetOffsets) == expected
    assert dumps(expected, standard=True) == quoted.replace(b" ", b"")


def test_a_key_that_is_no_queue():
    for key in ('{"brokerName":"b"}', '"text"', "0", '"[1]"', "[1]"):
        with pytest.raises(Malformed):
            loads(f'{{"offsetTable":{{{key}:7}}}}'.encode(), ResetOffsets)


def test_the_standard_form_sorts_its_keys():
    """Numbers by value: 10 comes after 9."""
    route = BrokerData(broker_addrs={10: "c", 9: "b", 0: "a"}, broker_name="b", cluster="c")
    text = dumps(route, standard=True)
    assert text.startswith(b'{"brokerAddrs":{"0":"a","9":"b","10":"c"}')
    table = ClusterInfo(cluster_addr_table={"z": [], "a": []})
    assert dumps(table, standard=True).endswith(b'{"a":[],"z":[]}}')
    assert dumps(table).endswith(b'{"z":[],"a":[]}}')


def test_the_standard_form_is_ascii():
    route = TopicRoute(order_topic_conf='é消🚀"\n\\')
    written = dumps(route, standard=True)
    assert rb"\u00E9\u6D88\uD83D\uDE80\"\n\\" in written
    assert loads(written, TopicRoute) == route == loads(dumps(route), TopicRoute)


def test_a_malformed_number_is_rejected():
    assert dumps({"a": float("nan"), "b": float("inf")}) == b'{"a":null,"b":null}'


# References ---------------------------------------------------------------------------------------


def test_references():
    day = StatsItem(sum=60, tps=1.0)
    text = b'{"statsDay":{"sum":60,"tps":1.0},"statsHour":{"$ref":"$.statsDay"}}'
    assert loads(text, BrokerStats) == BrokerStats(stats_day=day, stats_hour=day)


def test_references_into_lists_and_odd_names():
    text = (
        rb'{"consumerTable":{"a.b@c":{%b:1}},"x":[{"y":2},{"$ref":"$.x[0]"}],'
        rb'"messageQueueTable":{"$ref":"$.consumerTable.a\\.b\\@c"}}' % QUEUE.encode()
    )
    assert loads(text, ConsumerStatus).message_queue_table == {MessageQueue("t", "b", 0): 1}


def test_a_reference_to_a_reference():
    text = (
        b'{"statsDay":{"sum":1},"statsHour":{"$ref":"$.statsDay"},'
        b'"statsMinute":{"$ref":"$.statsHour"}}'
    )
    assert loads(text, BrokerStats).stats_minute == StatsItem(sum=1)


@pytest.mark.parametrize(
    "path",
    ['"$"', '"$.statsHour"', '"$.no"', '"$.x[9]"', '"$.x.y"', '"$x"', '".."', '""', "7", "[]"],
)
def test_references_to_nothing(path):
    text = b'{"x":[1],"statsHour":{"$ref":%b}}' % path.encode()
    with pytest.raises(Malformed):
        loads(text, BrokerStats)


def test_references_that_grow():
    """Each list names the one before it ten times: six of them would be a million values."""
    lists = ['"l0":[0]'] + [
        f'"l{n}":[' + ",".join([f'{{"$ref":"$.l{n - 1}"}}'] * 10) + "]" for n in range(1, 7)
    ]
    assert RESOLVED_PARTS_MAX < 10**6
    with pytest.raises(TooLarge):
        loads(("{" + ",".join(lists) + "}").encode(), BrokerStats)
