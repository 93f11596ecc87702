"""How clients reach brokers: over TLS, by the second port, behind another address."""

import asyncio

import pytest

from clients_live.reading import read_all
from cometmq.client.config import ClientConfig
from cometmq.client.message import Message
from cometmq.client.send.producer import Producer
from cometmq.errors import Unreachable
from cometmq.remoting.tls import client_context
from cometmq.standalone import Standalone
from peers.certificates import Authority
from peers.comet import CometBroker, CometNamesrv


def sent_by(config, topic="Ways"):
    async def story():
        async with Producer("p", client=config) as producer:
            return await producer.send(Message(topic, "x"))

    return asyncio.run(story())


def test_by_the_second_port(cluster):
    config = ClientConfig(name_servers=cluster.namesrv.address, vip_channel_enabled=True)
    result = sent_by(config)
    found = asyncio.run(read_all(cluster.namesrv.address, "Ways", 1))
    assert result.message_id in [message.message_id for message in found]


def test_behind_another_address(tmp_path):
    """The broker tells an address that nobody can reach, as in a container."""

    async def story():
        settings = {"brokerIP1": "203.0.113.7"}
        async with Standalone(tmp_path, settings=settings) as cluster:
            port = cluster.broker.port
            told, real = f"203.0.113.7:{port}", f"127.0.0.1:{port}"
            mapped = ClientConfig(name_servers=cluster.name_server, address_map={told: real})
            async with Producer("p", client=mapped) as producer:
                result = await producer.send(Message("Mapped", "x"))
                found = await producer.view_message(result.offset_id)
        assert found.message_id == result.message_id

    asyncio.run(story())


def test_over_tls_alone(tmp_path):
    authority = Authority(tmp_path, "authority")
    pair = authority.issue("server", "127.0.0.1")
    tls = {
        "tls.server.mode": "enforcing",
        "tls.server.certPath": pair.cert,
        "tls.server.keyPath": pair.key,
    }
    words = [f"{name}={value}" for name, value in tls.items()]
    with CometNamesrv(tmp_path / "n", *words) as server:
        trusting = client_context(authority.pair.cert)
        broker_conf = tls | {
            "useTLS": "true",
            "tls.client.authServer": "true",
            "tls.client.trustCertPath": authority.pair.cert,
        }
        with CometBroker(tmp_path / "b", namesrv=server.address, conf=broker_conf):
            config = ClientConfig(name_servers=server.address, use_tls=True, tls_context=trusting)
            assert sent_by(config).queue.topic == "Ways"
            distrusting = ClientConfig(name_servers=server.address, use_tls=True)
            with pytest.raises(Unreachable, match="certificate"):
                sent_by(distrusting)
