"""updateBrokerConfig refused most settings of 4.9, waitTimeMillsInPullQueue among them.

Apache's broker accepts them all. Those that are dangerous to change stay refused.
"""

import asyncio

import pytest

from broker.desk import at_desk
from broker.whole import at_broker
from cometmq.broker.broker import Broker
from cometmq.broker.config import BrokerConfig
from cometmq.broker.startup import broker_settings
from cometmq.broker.update_rules import UPDATE_RULES
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.java.values import parse_properties
from cometmq.settings.settings import as_properties
from cometmq.settings.start_settings import Given
from cometmq.store.config import StoreConfig

UPDATE, GET = RequestCode.UPDATE_BROKER_CONFIG, RequestCode.GET_BROKER_CONFIG
# Within bounds, where a number that is one more than the default is not.
VALUES = {
    "brokerPermission": "4", "deleteWhen": "05;17", "flushDiskType": "SYNC_FLUSH",
    "messageDelayLevel": "1s 2s", "regionId": "x",
}  # fmt: skip
UNSUPPORTED = {"enableLmq", "enableMultiDispatch"}  # which this version cannot hold


def other(key, value):
    if key in VALUES:
        return VALUES[key]
    return {"true": "false", "false": "true"}.get(value) or str(int(value) + 1)


async def shown(desk):
    return parse_properties((await desk.ask(GET)).body.decode())


def test_every_setting_that_is_not_dangerous_is_stored_and_shown(tmp_path):
    async def story(desk):
        before = await shown(desk)
        changes = {key: other(key, before[key]) for key in UPDATE_RULES.accepted - UNSUPPORTED}
        assert len(changes) > 130
        for key, value in changes.items():
            reply = await desk.ask(UPDATE, body=f"{key}={value}".encode())
            assert reply.code == 0, (key, reply.remark)
        assert await shown(desk) == before | changes
        stored = parse_properties((tmp_path / "broker.properties").read_text())
        assert stored == changes

    at_desk(tmp_path, story)


def test_settings_of_the_next_start_are_not_in_force(tmp_path):
    """What was built at start with one value must not meet another one."""

    async def story(desk):
        text = b"messageIndexEnable=false\nsendThreadPoolQueueCapacity=7\ntraceOn=false"
        assert (await desk.ask(UPDATE, body=text)).code == 0
        found = await shown(desk)
        assert (found["messageIndexEnable"], found["sendThreadPoolQueueCapacity"]) == ("false", "7")
        config, stored = desk.settings.now(BrokerConfig), desk.settings.now(StoreConfig)
        assert (config.send_thread_pool_queue_capacity, config.trace_on) == (10_000, False)
        assert stored.message_index_enable

    at_desk(tmp_path, story)


def test_limits_of_reads_change_immediately():
    async def story(whole):
        for _ in range(5):
            assert (await whole.send()).code == 0
        text = b"maxTransferCountOnMessageInMemory=2"
        assert len((await whole.pull()).body) > 0
        five = (await whole.pull()).header.next_begin_offset
        assert (await whole.ask(UPDATE, body=text)).code == 0
        two = (await whole.pull()).header.next_begin_offset
        assert (five, two) == (5, 2)

    at_broker(story)


@pytest.mark.parametrize("key", sorted(UPDATE_RULES.refused))
def test_a_dangerous_setting_stays_as_it_is(tmp_path, key):
    async def story(desk):
        before = await shown(desk)
        files = sorted(path.name for path in tmp_path.iterdir())
        for value in ("x", "1", "true", ""):
            reply = await desk.ask(UPDATE, body=f"traceOn=false\n{key}={value}".encode())
            assert reply.code == ResponseCode.NO_PERMISSION
            reason = UPDATE_RULES.refused[key]
            assert reply.remark.startswith(f"{key} cannot be changed by a request: {reason}")
        assert await shown(desk) == before
        assert sorted(path.name for path in tmp_path.iterdir()) == files

    at_desk(tmp_path, story)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("waitTimeMilsInPullQueue=1", "unknown setting waitTimeMilsInPullQueue (did you mean wait"),
        ("waitTimeMillsInPullQueue=abc", "waitTimeMillsInPullQueue=abc: expected an integer"),
        ("serverWorkerThreads=3000000000", "serverWorkerThreads=3000000000: expected an integer"),
        ("highSpeedMode=1", "highSpeedMode=1: expected true or false"),
        ("maxMessageSize=-1", "maxMessageSize=-1: expected an integer from 1024 to 2147483647"),
        ("maxTransferCountOnMessageInMemory=0", "maxTransferCountOnMessageInMemory=0: expected"),
        ("messageDelayLevel=zz", "messageDelayLevel"),
        ("messageDelayLevel=", "messageDelayLevel"),
        ("deleteWhen=xx", "deleteWhen=xx: "),
        ("enableLmq=true", "enableLmq=true: not supported"),
        ("abortFile=/x", "abortFile cannot be changed by a request: no rule allows it"),
    ],
)
def test_a_bad_value_or_key_is_named_and_nothing_is_changed(tmp_path, text, told):
    async def story(desk):
        before = await shown(desk)
        reply = await desk.ask(UPDATE, body=f"traceOn=false\n{text}".encode())
        assert reply.code != 0
        assert told in reply.remark
        assert await shown(desk) == before
        assert not (tmp_path / "broker.properties").exists()

    at_desk(tmp_path, story)


LINE = {
    "storePathRootDir": "", "listenPort": "0", "bindAddress": "127.0.0.1", "namesrvAddr": "",
    "brokerIP1": "127.0.0.1", "mappedFileSizeCommitLog": "65536", "maxHashSlotNum": "100",
    "maxIndexNum": "400",
}  # fmt: skip


def test_a_broker_starts_again_after_every_change(tmp_path):
    """What is acknowledged must not keep it from its next start."""

    async def start(is_changed):
        async with Broker(*broker_settings(Given(LINE | {"storePathRootDir": str(tmp_path)}))) as b:
            live = b.parts.context.settings
            texts = parse_properties(as_properties(*live.all))
            changes = {key: other(key, texts[key]) for key in UPDATE_RULES.accepted - UNSUPPORTED}
            if is_changed:
                text = "".join(f"{key}={value}\n" for key, value in changes.items())
                await live.update(text.encode())
            return parse_properties(as_properties(*live.all))

    changed, again = asyncio.run(start(True)), asyncio.run(start(False))
    computed = {"bitMapLengthConsumeQueueExt"}
    assert {key: changed[key] for key in changed.keys() - computed} == {
        key: again[key] for key in again.keys() - computed
    }
