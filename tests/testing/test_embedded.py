"""A cluster inside a test."""

import asyncio
import logging
import tempfile
from datetime import timedelta

import pytest

from broker.whole import SUSPEND, WITH_SUBSCRIPTION, bodies, pull_header
from cometmq.errors import BadSetting, Closed
from cometmq.protocol.bodies.route import TopicRoute
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.namesrv import RouteHeader
from cometmq.protocol.headers.send import SendHeaderV2
from cometmq.protocol.java.fastjson import loads
from cometmq.testing import blocking
from cometmq.testing.embedded import EmbeddedCluster
from cometmq.testing.hurried_clock import HurriedClock
from remoting.rig import pooling


async def route_of(pool, cluster, topic):
    return await pool.invoke(
        cluster.name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, RouteHeader(topic=topic),
        timeout_ms=5000,
    )  # fmt: skip


def test_a_topic_is_there_when_create_topic_returns():
    async def story():
        async with EmbeddedCluster() as cluster, pooling() as pool:
            folder = cluster.folder
            await cluster.create_topic("T", queues=3)
            route = loads((await route_of(pool, cluster, "T")).body, TopicRoute)
            assert folder.is_dir()
        assert not folder.exists(), "the folder is gone with the cluster"
        return route

    route = asyncio.run(story())
    assert [queue.write_queue_nums for queue in route.queue_datas] == [3]


def test_a_delay_passes_when_the_clock_is_put_forward(tmp_path):
    async def story():
        async with EmbeddedCluster(tmp_path) as cluster, pooling() as pool:
            await cluster.create_topic("T", queues=1)
            header = SendHeaderV2(
                producer_group="p", topic="T", default_topic="TBW102", default_topic_queue_nums=4,
                queue_id=0, sys_flag=0, born_timestamp=0, flag=0,
                properties="DELAY\x0118",  # two hours
            )  # fmt: skip
            sent = await pool.invoke(
                cluster.broker_address, RequestCode.SEND_MESSAGE_V2, header, b"late",
                timeout_ms=5000,
            )  # fmt: skip
            assert sent.code == ResponseCode.SUCCESS
            waiting = asyncio.create_task(
                pool.invoke(
                    cluster.broker_address,
                    RequestCode.PULL_MESSAGE,
                    pull_header(
                        sys_flag=WITH_SUBSCRIPTION | SUSPEND, suspend_timeout_millis=10_000_000
                    ),
                    timeout_ms=20_000,
                )
            )
            done, _ = await asyncio.wait([waiting], timeout=0.2)
            assert not done, "it waits for the delay"
            cluster.advance(timedelta(hours=2, seconds=1))
            return await waiting

    assert bodies(asyncio.run(story())) == [b"late"]
    assert (tmp_path / "store" / "commitlog").is_dir(), "a folder that was given stays"


def test_settings_are_the_broker_s():
    async def story():
        settings = {"autoCreateTopicEnable": "false"}
        async with EmbeddedCluster(settings=settings) as cluster, pooling() as pool:
            return await route_of(pool, cluster, "TBW102")

    assert asyncio.run(story()).code == ResponseCode.TOPIC_NOT_EXIST


def test_two_clusters_do_not_meet():
    async def story():
        async with EmbeddedCluster() as one, EmbeddedCluster() as other, pooling() as pool:
            await one.create_topic("T")
            return [(await route_of(pool, each, "T")).code for each in (one, other)]

    assert asyncio.run(story()) == [ResponseCode.SUCCESS, ResponseCode.TOPIC_NOT_EXIST]


def test_a_hurried_clock_rings_in_order_and_only_when_due():
    async def story():
        clock, rung = HurriedClock(), []
        for delay_ms in (3000, 1000, 2000, 60_000):
            clock.call_later(delay_ms, lambda each=delay_ms: rung.append(each))
        clock.call_later(1500, lambda: rung.append("never")).cancel()
        before_ms = clock.wall_ms()
        clock.advance(3000)
        assert 3000 <= clock.wall_ms() - before_ms < 60_000
        await asyncio.sleep(0.05)
        assert rung == [1000, 2000, 3000]
        sleeping = asyncio.create_task(clock.sleep_ms(60_000))
        await asyncio.sleep(0)
        clock.advance(60_000)
        await asyncio.wait_for(sleeping, 5)
        assert rung == [1000, 2000, 3000, 60_000]
        with pytest.raises(ValueError, match="forward"):
            clock.advance(-1)

    asyncio.run(story())


def test_it_says_nothing_when_all_is_well(caplog):
    async def story():
        async with EmbeddedCluster() as cluster:
            await cluster.create_topic("T")

    with caplog.at_level(logging.WARNING):
        asyncio.run(story())
    assert caplog.records == []


def test_a_temporary_folder_is_there_from_the_start_to_the_end(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    async def story():
        cluster = EmbeddedCluster(settings={"noSuchSetting": "1"})
        assert not list(tmp_path.iterdir()), "made, and not started"
        with pytest.raises(Closed, match="not started"):
            _ = cluster.name_server
        with pytest.raises(BadSetting):
            await cluster.start()
        assert not list(tmp_path.iterdir()), "a start that fails leaves nothing"
        await cluster.close()

    asyncio.run(story())


def test_settings_may_be_numbers_and_bools():
    async def story():
        async with EmbeddedCluster(settings={"maxMessageSize": 2000, "traceOn": False}):
            pass

    asyncio.run(story())


def test_the_representation_shows_the_address():
    async def story():
        cluster = EmbeddedCluster()
        assert repr(cluster) == "<EmbeddedCluster not started>"
        async with cluster:
            assert repr(cluster) == f"<EmbeddedCluster at {cluster.name_server}>"

    asyncio.run(story())
    with blocking.EmbeddedCluster() as cluster:
        assert cluster.name_server in repr(cluster)


@pytest.mark.parametrize("time", ["2h", -1, True, float("nan"), None])
def test_a_bad_time_is_rejected_by_name(time):
    with pytest.raises(BadSetting, match=r"^time is .*: it must be a number of seconds or a time"):
        EmbeddedCluster().advance(time)
