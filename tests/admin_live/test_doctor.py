"""The doctor: is everybody where they say they are, and if not, what to set?"""

import asyncio
import socket
from contextlib import closing

import pytest

from cometmq.admin import doctor
from cometmq.admin.session import AdminConfig, AdminSession
from peers import ports
from peers.comet import CometBroker, CometNamesrv


def examine(*name_servers, **config):
    async def story():
        async with AdminSession(AdminConfig(name_servers=name_servers, **config)) as admin:
            return await doctor.examine(admin)

    return asyncio.run(story())


def test_all_is_well(site):
    findings = site.ask("doctor")
    assert [(each["what"], each["state"]) for each in findings] == [
        ("name server", "ok"), ("broker broker-a:0", "ok"),
    ]  # fmt: skip


@pytest.fixture
def namesrv(tmp_path):
    with CometNamesrv(tmp_path / "namesrv") as server:
        yield server


def test_no_broker(namesrv):
    *_, finding = examine(namesrv.address)
    assert finding.is_failure and f"namesrvAddr={namesrv.address}" in finding.advice


def test_a_name_server_that_is_down(namesrv, tmp_path):
    gone = f"127.0.0.1:{ports.free_port()}"
    first = examine(gone, namesrv.address)[0]
    assert first.is_failure and first.address == gone and "remove it" in first.advice


def test_name_servers_that_do_not_agree(namesrv, tmp_path):
    with (
        CometNamesrv(tmp_path / "other") as other,
        CometBroker(tmp_path / "a", namesrv=namesrv.address),
    ):
        bad = [each for each in examine(namesrv.address, other.address) if each.is_failure]
        assert [each.address for each in bad] == [other.address]
        assert "lacks broker-a:0" in bad[0].advice


@pytest.fixture
def wrong_address(namesrv, tmp_path):
    """A broker that tells an address where nobody is, as one in a container does."""
    # A port that is bound and not listened to: who connects is refused.
    with closing(socket.socket()) as blocker:
        blocker.bind(("127.0.0.2", 0))
        broker = CometBroker(
            tmp_path / "a",
            namesrv=namesrv.address,
            conf={"brokerIP1": "127.0.0.2", "bindAddress": "127.0.0.1"},
        )
        with broker:
            yield broker


def test_an_unreachable_address(namesrv, wrong_address):
    told, real = f"127.0.0.2:{wrong_address.port}", f"127.0.0.1:{wrong_address.port}"
    *_, finding = examine(namesrv.address)
    assert finding.is_failure and finding.address == told
    assert "set brokerIP1=127.0.0.1" in finding.advice
    assert f"address_map={{'{told}': '{real}'}}" in finding.advice
    *_, finding = examine(namesrv.address, address_map={told: real})
    assert not finding.is_failure and real in finding.advice
    *_, finding = examine(namesrv.address, address_map={told: "127.0.0.1:1"})
    assert finding.is_failure and "correct it" in finding.advice


def test_a_broker_that_does_not_answer(namesrv, tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "_PROBE_MS", 2_000)
    with CometBroker(tmp_path / "a", namesrv=namesrv.address) as broker:
        broker.pause()
        *_, finding = examine(namesrv.address)
        broker.resume()
    assert finding.is_failure and finding.address == broker.address
    assert "not a broker" in finding.advice


def test_a_second_port_that_is_closed(namesrv, tmp_path, monkeypatch):
    """As behind a firewall that lets the first one through; here another port is looked for."""
    closed = ports.free_port()
    with CometBroker(tmp_path / "a", namesrv=namesrv.address):
        monkeypatch.setattr(doctor, "second_port_of", lambda address: f"127.0.0.1:{closed}")
        *_, first, second = examine(namesrv.address)
    assert first.state == doctor.OK
    assert second.address == f"127.0.0.1:{closed}" and "vipChannelEnabled" in second.advice
    assert second.state == "warning" and not second.is_failure
