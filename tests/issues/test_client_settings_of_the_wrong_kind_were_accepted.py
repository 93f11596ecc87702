"""Client settings were not checked.

`message_model="BROADCASTING"` consumed as clustering with local offsets, and
`consume_from="FIRST_OFFSET"` made `ready()` wait forever. Other values of the wrong kind failed
later, by an error of Python that named no setting.
"""

import asyncio
import inspect
import ssl
from dataclasses import fields
from datetime import datetime
from pathlib import Path

import pytest

import cometmq
from cometmq import (
    Averagely,
    ByConfig,
    ByMachineRoom,
    ClientConfig,
    ConsistentHash,
    ConsumeFrom,
    LitePullConsumerConfig,
    Message,
    MessageModel,
    ProducerConfig,
    PullConsumerConfig,
    PushConsumer,
    PushConsumerConfig,
    blocking,
    compat,
)
from cometmq.admin.session import AdminConfig
from cometmq.client.fields import Setting
from cometmq.errors import BadMessage, BadSetting
from cometmq.protocol.flags import MessageFlag
from cometmq.testing import EmbeddedCluster

CONFIGS = [
    AdminConfig, ClientConfig, LitePullConsumerConfig, ProducerConfig, PullConsumerConfig,
    PushConsumerConfig,
]  # fmt: skip
NEEDS_GROUP = [each for each in CONFIGS if each not in (ClientConfig, AdminConfig)]
CONSUMERS = [LitePullConsumerConfig, PullConsumerConfig, PushConsumerConfig]


def make(kind, **values):
    return kind(**({"group": "g"} if kind in NEEDS_GROUP else {}), **values)


EVERY_FIELD = [
    (kind, each.name) for kind in CONFIGS for each in fields(kind) if each.name != "group"
]


@pytest.mark.parametrize(("kind", "name"), EVERY_FIELD)
@pytest.mark.parametrize("wrong", [object(), 1.5j, b"true", {1: 2}, [None]])
def test_every_field_refuses_a_wrong_kind_by_name(kind, name, wrong):
    assert isinstance(inspect.getattr_static(kind, name), Setting), "a field that is not checked"
    with pytest.raises(BadSetting, match=f"^{name} is .*: it must be "):
        make(kind, **{name: wrong})


@pytest.mark.parametrize(("kind", "name"), EVERY_FIELD)
def test_every_field_accepts_what_it_is_read_as(kind, name):
    value = getattr(make(kind), name)
    assert getattr(make(kind, **{name: value}), name) == value


@pytest.mark.parametrize("kind", NEEDS_GROUP)
@pytest.mark.parametrize("wrong", [None, 5, ["g"]])
def test_a_group_is_a_text(kind, wrong):
    with pytest.raises(BadSetting, match=r"^group is .*: it must be a string"):
        kind(group=wrong)


@pytest.mark.parametrize("kind", CONSUMERS)
@pytest.mark.parametrize(
    ("name", "given", "read"),
    [
        ("message_model", "BROADCASTING", MessageModel.BROADCASTING),
        ("message_model", MessageModel.BROADCASTING, MessageModel.BROADCASTING),
        ("consume_from", "FIRST_OFFSET", ConsumeFrom.FIRST_OFFSET),
        ("consume_from", "CONSUME_FROM_TIMESTAMP", ConsumeFrom.TIMESTAMP),
        ("offset_folder", "offsets", Path("offsets")),
        ("consume_timestamp", datetime(2026, 1, 1), datetime(2026, 1, 1)),
    ],
)
def test_names_of_enum_members_are_accepted(kind, name, given, read):
    found = getattr(make(kind, **{name: given}), name)
    assert found == read
    assert type(found) is type(read)


def test_a_compression_by_its_name():
    assert make(ProducerConfig, compression="ZLIB").compression is MessageFlag.ZLIB
    with pytest.raises(BadSetting, match=r"compression is .*: LZ4, ZSTD, ZLIB$"):
        make(ProducerConfig, compression=MessageFlag.PREPARED)


@pytest.mark.parametrize("wrong", ["broadcasting", "", 0, ConsumeFrom.FIRST_OFFSET, True])
def test_what_is_no_member_is_refused_with_the_names(wrong):
    with pytest.raises(BadSetting, match=r"message_model is .*: BROADCASTING, CLUSTERING$"):
        make(PushConsumerConfig, message_model=wrong)


@pytest.mark.parametrize("wrong", [Averagely, "AVG", object()])
def test_what_is_no_strategy_is_refused(wrong):
    with pytest.raises(BadSetting, match=r"allocation is .*it must be a strategy"):
        make(PushConsumerConfig, allocation=wrong)


def test_a_secret_is_not_in_the_error():
    with pytest.raises(BadSetting, match=r"^secret_key is a bytes: it must be a string$"):
        ClientConfig(access_key="a", secret_key=b"hush")
    assert "hush" not in repr(ClientConfig(access_key="a", secret_key="hush"))
    assert "hush" not in repr(AdminConfig(access_key="a", secret_key="hush"))


def test_an_own_tls_context():
    context = ssl.create_default_context()
    assert ClientConfig(tls_context=context).tls_context is context


def test_a_consumer_that_was_given_names_reads_from_the_first_message():
    async def story():
        done = asyncio.Event()
        async with EmbeddedCluster() as cluster:
            async with cometmq.Producer("makers", cluster.name_server) as producer:
                await producer.send(Message("T", "one"))
            config = PushConsumerConfig(group="g", consume_from="FIRST_OFFSET")
            async with PushConsumer(config, cluster.name_server) as consumer:

                @consumer.on("T")
                async def take(message):
                    done.set()

                async with asyncio.timeout(60):
                    await consumer.ready()
                    await done.wait()

    asyncio.run(story())


@pytest.mark.parametrize("package", [cometmq, blocking])
@pytest.mark.parametrize(
    ("kind", "config"),
    [
        ("Producer", PushConsumerConfig),
        ("PushConsumer", ProducerConfig),
        ("PullConsumer", PushConsumerConfig),
        ("LitePullConsumer", PushConsumerConfig),
    ],
)
def test_a_client_refuses_the_settings_of_another(package, kind, config):
    for group in (config(group="g"), 5, None):
        with pytest.raises(BadSetting, match=r"^group is a .*: it must be the name of a group, or"):
            getattr(package, kind)(group, "127.0.0.1:1")


@pytest.mark.parametrize("package", [cometmq, blocking])
@pytest.mark.parametrize("name", ["client", "session"])
def test_a_client_refuses_another_thing_for_its_session(package, name):
    with pytest.raises(BadSetting, match=f"^{name} is '127.0.0.1:1': it must be a "):
        package.Producer("g", **{name: "127.0.0.1:1"})


@pytest.mark.parametrize(
    ("setter", "wrong", "says"),
    [
        ("setMessageModel", "broadcast", "BROADCASTING, CLUSTERING"),
        ("setConsumeFromWhere", 0, "FIRST_OFFSET"),
        ("setConsumeTimeout", "a", "whole number"),
        ("setConsumeTimestamp", 5, "a string"),
        ("setConsumeThreadMin", 0, "from 1"),
        ("setVipChannelEnabled", "false", "True or False"),
    ],
)
def test_java_setters_refuse_by_their_own_name(setter, wrong, says):
    consumer = compat.DefaultMQPushConsumer("g")
    with pytest.raises(BadSetting, match=f"^{setter} is .*: it must be .*{says}"):
        getattr(consumer, setter)(wrong)


@pytest.mark.parametrize(
    "values",
    [
        {"delay_level": "3"}, {"delay_level": 1.5}, {"delay_level": True}, {"wait": "false"},
        {"flag": "3"}, {"flag": 1.0}, {"sharding_key": 3}, {"buyer_id": 3}, {"keys": 3},
        {"properties": [1]}, {"tags": 3},
    ],
)  # fmt: skip
def test_a_message_refuses_a_wrong_kind_by_name(values):
    (name,) = values
    with pytest.raises(BadMessage, match=f"^{name} is "):
        Message("T", "body", **values)


@pytest.mark.parametrize(
    "made",
    [
        lambda: ConsistentHash("3"),
        lambda: ByConfig([1]),
        lambda: ByMachineRoom("room"),
        lambda: cometmq.Session(5),
        lambda: cometmq.Tracer("127.0.0.1:1", topic=4),
        lambda: cometmq.MemoryStore(keys_max="many"),
        lambda: cometmq.SqliteStore(5),
        lambda: EmbeddedCluster(5),
        lambda: EmbeddedCluster(settings=[("a", "b")]),
        lambda: EmbeddedCluster(settings={"a": 1.5}),
        lambda: EmbeddedCluster().advance("1"),
    ],
)
def test_other_arguments_are_checked_too(made):
    with pytest.raises(BadSetting, match=r" (is|has) .*must be "):
        made()


def test_arguments_of_a_running_cluster_and_producer():
    async def story():
        async with EmbeddedCluster() as cluster:
            for queues in (0, "3", 1.5, True):
                with pytest.raises(BadSetting, match=r"^queues is "):
                    await cluster.create_topic("T", queues)
            async with cometmq.Producer("makers", cluster.name_server) as producer:
                for name in ("queue", "selector"):
                    with pytest.raises(BadSetting, match=f"^{name} is 3: it must be "):
                        await producer.send(Message("T", "x"), **{name: 3})

    asyncio.run(story())
