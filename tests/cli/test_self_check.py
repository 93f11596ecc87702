"""A standalone cluster: the address that it advertises, and its self-check."""

import asyncio

import pytest

from cometmq import self_check
from cometmq.errors import Malformed, WorldError
from cometmq.local_address import local_ip
from cometmq.self_check import checked
from cometmq.standalone import Standalone


def check(folder, **settings):
    async def story():
        async with checked(Standalone(folder, settings=settings)) as cluster:
            return cluster.name_server

    return asyncio.run(story())


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
def test_a_cluster_on_all_interfaces_advertises_an_address_of_this_machine(tmp_path, host):
    cluster = Standalone(tmp_path, host=host)
    assert cluster._broker()._config.broker_ip1 == local_ip()
    assert cluster._namesrv()._config.bind_address == host
    with_own = Standalone(tmp_path, host=host, settings={"brokerIP1": "10.0.0.1"})
    assert with_own._broker()._config.broker_ip1 == "10.0.0.1"


def test_the_check_needs_no_automatic_topics(tmp_path, caplog):
    assert check(tmp_path, autoCreateTopicEnable="false")
    assert "self-check" not in caplog.text


def test_a_broker_that_refuses_the_check_serves_with_a_warning(tmp_path, caplog):
    assert check(tmp_path, autoCreateSubscriptionGroup="false")
    assert "do not allow the self-check" in caplog.text


@pytest.mark.parametrize("error", [Malformed("odd"), WorldError("odd")])
def test_a_failed_check_is_one_line(tmp_path, monkeypatch, error):
    async def fails(name_server):
        raise error

    monkeypatch.setattr(self_check, "self_check", fails)
    with pytest.raises(WorldError, match="the self-check failed: odd"):
        check(tmp_path)
