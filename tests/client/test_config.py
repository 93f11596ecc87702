"""Settings: Java's defaults, bounds, and who a client is."""

import pickle
from copy import copy, deepcopy
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from cometmq.admin.session import AdminConfig
from cometmq.client.config import (
    ClientConfig,
    LitePullConsumerConfig,
    ProducerConfig,
    PullConsumerConfig,
    PushConsumerConfig,
)
from cometmq.client.consumer.shared.allocate import AveragelyByCircle
from cometmq.client.consumer.shared.flow_limits import FlowLimits
from cometmq.client.durations import duration_ms, parse_timestamp
from cometmq.client.fields import parse_addresses
from cometmq.compat.producer import JavaProducerConfig
from cometmq.errors import BadSetting
from cometmq.protocol.bodies.heartbeat import ConsumeFrom
from protocol import golden

# Fields of Java's that have no meaning here: thread pools, and state that is no setting.
ELSEWHERE = {
    "accessChannel", "language", "namespaceInitialized", "adjustThreadPoolNumsThreshold",
    "checkThreadPoolMaxSize", "checkThreadPoolMinSize", "consumeThreadMin", "pullThreadNums",
    "customizedTraceTopic", "enableMsgTrace", "producerGroup", "consumerGroup",
}  # fmt: skip
OURS = {
    "mqClientApiTimeout": "api_timeout",
    "pullTimeDelayMillsWhenException": "pull_delay_when_exception",
    "useTLS": "use_tls",
    "sendMsgTimeout": "send_timeout",
    "compressMsgBodyOverHowmuch": "compress_over",
    "retryTimesWhenSendFailed": "retries",
    "retryTimesWhenSendAsyncFailed": "async_retries",
    "retryAnotherBrokerWhenNotStoreOK": "retry_another_broker_when_not_stored",
    "maxMessageSize": "message_size_max",
    "consumeThreadMax": "consume_threads",
    "consumeFromWhere": "consume_from",
    "pullThresholdSizeForQueue": "pull_threshold_size_for_queue_mib",
    "pullThresholdSizeForTopic": "pull_threshold_size_for_topic_mib",
    "suspendCurrentQueueTimeMillis": "suspend_current_queue_time",
    "consumeTimeout": "consume_timeout",
    "awaitTerminationMillisWhenShutdown": "await_termination_when_shutdown",
    "brokerSuspendMaxTimeMillis": "broker_suspend_max_time",
    "consumerTimeoutMillisWhenSuspend": "consumer_timeout_when_suspend",
    "consumerPullTimeoutMillis": "consumer_pull_timeout",
    "autoCommitIntervalMillis": "auto_commit_interval",
    "pollTimeoutMillis": "poll_timeout",
    "topicMetadataCheckIntervalMillis": "topic_metadata_check_interval",
}
KINDS = {
    "ClientConfig": None,
    "DefaultMQProducer": JavaProducerConfig,
    "TransactionMQProducer": JavaProducerConfig,
    "DefaultMQPushConsumer": PushConsumerConfig,
    "DefaultLitePullConsumer": LitePullConsumerConfig,
}


def snake(name):
    return "".join(f"_{sign.lower()}" if sign.isupper() else sign for sign in name)


def as_java(name, value):
    if name == "consumeTimeout":
        return value // 60
    if isinstance(value, float):
        return duration_ms(value)
    if isinstance(value, frozenset):
        return sorted(value)
    if value == "":
        return None
    return getattr(value, "value", value)


@golden.each("clients", "defaults/")
def test_defaults_are_javas(entry, monkeypatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    asked = entry["value"]
    kind = KINDS[asked["class"]]
    settings = [kind(group="g")] if kind else []
    settings.append(ClientConfig(enable_stream_request_type=kind is LitePullConsumerConfig))
    for name, value in asked["answer"]["values"].items():
        if name in ELSEWHERE:
            continue
        mine = OURS.get(name, snake(name))
        found = [getattr(each, mine) for each in settings if hasattr(each, mine)]
        assert found, f"no setting for {name}"
        assert as_java(name, found[0]) == value, name


@golden.each("clients", "client_id/")
def test_client_id_as_java(entry):
    asked = entry["value"]
    config = ClientConfig(
        client_ip=asked["ip"], instance_name=asked["instance"], unit_name=asked["unit"] or "",
        enable_stream_request_type=asked["stream"],
    )  # fmt: skip
    assert config.client_id == asked["answer"]["id"]


def test_an_instance_of_its_own_unless_one_was_chosen():
    config = ClientConfig(client_ip="10.0.0.1")
    assert config.with_own_instance(77, 123).client_id == "10.0.0.1@77#123"
    chosen = ClientConfig(client_ip="10.0.0.1", instance_name="a")
    assert chosen.with_own_instance(77, 123) is chosen


def test_durations_are_seconds_or_timedelta():
    config = ClientConfig(heartbeat_broker_interval=timedelta(seconds=2))
    assert config.heartbeat_broker_interval == 2
    assert ProducerConfig(group="g", send_timeout=0.5).send_timeout == 0.5
    assert ProducerConfig(group="g", send_timeout=0.0014).send_timeout == 0.001, "whole ms"
    assert ProducerConfig(group="g").send_timeout == 3


FORMER_NAMES = [
    (ClientConfig, "api_timeout_ms", "api_timeout"),
    (ProducerConfig, "send_timeout_ms", "send_timeout"),
    (PushConsumerConfig, "suspend_current_queue_ms", "suspend_current_queue_time"),
    (PullConsumerConfig, "broker_suspend_max_ms", "broker_suspend_max_time"),
    (LitePullConsumerConfig, "broker_suspend_max_ms", "broker_suspend_max_time"),
    (AdminConfig, "timeout_ms", "timeout"),
]


@pytest.mark.parametrize(("kind", "old", "new"), FORMER_NAMES)
def test_former_names_are_rejected_with_the_new_name(kind, old, new):
    own = {} if kind in (ClientConfig, AdminConfig) else {"group": "g"}
    says = f"^{old} is now called {new}: a number of seconds or a timedelta$"
    with pytest.raises(BadSetting, match=says):
        kind(**own, **{old: 3_000})
    with pytest.raises(AttributeError, match=says):
        getattr(kind(**own), old)
    with pytest.raises(BadSetting, match=says):
        replace(kind(**own), **{old: 3_000})


def test_unknown_names_are_rejected_with_the_closest_name():
    with pytest.raises(
        BadSetting, match=r"^ProducerConfig has no setting retrys \(did you mean retries"
    ):
        ProducerConfig(group="g", retrys=3)
    with pytest.raises(BadSetting, match=r"^ClientConfig has no setting zzz$"):
        ClientConfig(zzz=3)


def test_settings_can_be_copied_and_pickled():
    config = ProducerConfig(group="g", send_timeout=1.5)
    assert copy(config) == deepcopy(config) == pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize(
    ("kind", "fields", "hint"),
    [
        (ProducerConfig, {"send_timeout": 0}, "send_timeout is 0: it must be .*, at least 0.001 s"),
        (ProducerConfig, {"send_timeout": timedelta(seconds=-1)}, "send_timeout is .*seconds or"),
        (ProducerConfig, {"send_timeout": "3"}, "send_timeout is '3': it must be .*seconds or"),
        (ProducerConfig, {"send_timeout": True}, "send_timeout is True: it must be"),
        (ProducerConfig, {"send_timeout": 1e9}, "at least 0.001 s"),
        (ProducerConfig, {"retries": True}, "whole number"),
        (ProducerConfig, {"retries": "2"}, "whole number"),
        (ProducerConfig, {"group": ""}, "the group name is empty"),
        (ProducerConfig, {"group": "a b"}, "may contain only letters"),
        (ProducerConfig, {"group": "DEFAULT_PRODUCER"}, "is reserved"),
        (PushConsumerConfig, {"group": "DEFAULT_CONSUMER"}, "is reserved"),
        (PushConsumerConfig, {"consume_message_batch_max_size": 1025}, "from 1 to 1024"),
        (PushConsumerConfig, {"pull_threshold_for_topic": -2}, "from -1"),
        (PushConsumerConfig, {"suspend_current_queue_time": 31}, ", 0.01 to 30 s"),
        (LitePullConsumerConfig, {"auto_commit_interval": 0.999}, "at least 1 s"),
        (LitePullConsumerConfig, {"broker_suspend_max_time": 30.001}, "at least broker_suspend"),
    ],
)
def test_out_of_bounds_is_refused_by_name(kind, fields, hint):
    with pytest.raises(BadSetting, match=hint):
        kind(**{"group": "g", **fields})


def test_settings_are_frozen():
    with pytest.raises(AttributeError):
        ProducerConfig(group="g").retries = 5


def test_name_servers(monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", "10.0.0.1:9876; 10.0.0.2:9876;")
    assert ClientConfig().name_servers == ("10.0.0.1:9876", "10.0.0.2:9876")
    assert ClientConfig(name_servers="a:1").name_servers == ("a:1",)
    assert ClientConfig(name_servers=["a:1", "[::1]:2"]).name_servers == ("a:1", "[::1]:2")
    assert ClientConfig(name_servers="").name_servers == ()
    monkeypatch.delenv("NAMESRV_ADDR")
    assert ClientConfig().name_servers == ()


@pytest.mark.parametrize("bad", ["a", "a:", ":1", "a:0", "a:65536", "a:x", "a:²"])
def test_what_is_no_address(bad):
    with pytest.raises(BadSetting, match="not a valid address"):
        parse_addresses(bad)
    with pytest.raises(BadSetting, match="not a valid address"):
        ClientConfig(address_map={"10.0.0.1:10911": bad})


@pytest.mark.parametrize(
    ("given", "hint"),
    [
        ("a:1,b:2", "separate addresses with ';'"),
        (["a:1,b:2"], "separate addresses with ';'"),
        ("http://a:1/", "without it, 'a:1'"),
    ],
)
def test_common_mistakes_in_addresses_are_explained(given, hint):
    with pytest.raises(BadSetting, match=hint):
        ClientConfig(name_servers=given)


def test_address_map_is_a_copy():
    given = {"172.17.0.2:10911": "127.0.0.1:10911"}
    config = ClientConfig(address_map=given)
    given.clear()
    assert config.address_map == {"172.17.0.2:10911": "127.0.0.1:10911"}


@pytest.mark.parametrize("name", ["client_ip", "instance_name"])
def test_a_client_has_a_name(name):
    with pytest.raises(BadSetting, match=f"{name} is ' ': it must be a string that is not blank"):
        ClientConfig(**{name: " "})


def test_flow_limits():
    config = PushConsumerConfig(group="g")
    assert config.flow_limits(4) == FlowLimits()
    assert config.flow_limits(4, orderly=True) == FlowLimits(span=None)
    tight = PushConsumerConfig(
        group="g", pull_threshold_for_topic=100, pull_threshold_size_for_topic_mib=8
    )
    assert tight.flow_limits(4) == FlowLimits(25, 2 << 20, 2000)
    assert LitePullConsumerConfig(group="g").flow_limits == FlowLimits()


def test_where_a_group_begins():
    config = PushConsumerConfig(
        group="g", consume_from=ConsumeFrom.TIMESTAMP, allocation=AveragelyByCircle()
    )
    assert config.start_ms(10_000_000) == 10_000_000 - 1_800_000
    moment = parse_timestamp("20260131235959")
    assert moment == datetime(2026, 1, 31, 23, 59, 59).astimezone()
    begun = PushConsumerConfig(group="g", consume_timestamp=moment)
    assert begun.start_ms(0) == int(moment.timestamp()) * 1000
    with pytest.raises(BadSetting, match="not a time"):
        parse_timestamp("yesterday")
