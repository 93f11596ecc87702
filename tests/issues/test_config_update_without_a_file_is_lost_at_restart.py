"""A server without a `-c` file stored changes in a file that no start ever read."""

import asyncio

import pytest

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.base import NoHeader
from cometmq.protocol.java.values import parse_properties
from cometmq.standalone import Standalone
from peers.configured import ConfiguredBroker, ConfiguredNamesrv, shown, update
from peers.raw import RawClient

CHANGES = {"traceOn": "false", "waitTimeMillsInPullQueue": "1234", "serverSocketBacklog": "77"}
TEXT = "".join(f"{key}={value}\n" for key, value in CHANGES.items())


def test_of_a_broker(tmp_path):
    broker = ConfiguredBroker(tmp_path)
    with broker:
        assert update(broker, TEXT).code == 0
    file = tmp_path / "store" / "broker.properties"
    assert file.read_text() == TEXT
    with broker:
        assert shown(broker).items() >= CHANGES.items()
        assert shown(broker)["brokerConfigPath"] == str(file)


def test_of_a_name_server(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    server = ConfiguredNamesrv(tmp_path)
    changes = {"orderMessageEnable": "true", "serverWorkerThreads": "5"}
    with server:
        assert update(server, "orderMessageEnable=true\nserverWorkerThreads=5").code == 0
    with server:
        assert shown(server).items() >= changes.items()


def test_of_a_file_that_the_command_line_names(tmp_path):
    server = ConfiguredNamesrv(tmp_path, f"configStorePath={tmp_path}/mine.properties")
    with server:
        assert update(server, "orderMessageEnable=true").code == 0
    assert (tmp_path / "mine.properties").read_text() == "orderMessageEnable=true\n"
    with server:
        assert shown(server)["orderMessageEnable"] == "true"


def test_of_both_in_one_process(tmp_path):
    async def story(text, **wanted):
        async with Standalone(tmp_path) as cluster, RawClient(cluster.broker_address) as client:
            if text:
                await client.ask(RequestCode.UPDATE_BROKER_CONFIG, NoHeader(), text.encode())
            reply = await client.ask(RequestCode.GET_BROKER_CONFIG, NoHeader())
        return parse_properties(reply.body.decode())

    asyncio.run(story(TEXT))
    assert asyncio.run(story("")).items() >= CHANGES.items()


def test_what_no_request_can_change_is_not_read_from_there(tmp_path):
    """An earlier version wrote every setting there, with the address that it then had."""
    store = tmp_path / "store"
    store.mkdir()
    file = store / "broker.properties"
    file.write_text("listenPort=1\nbrokerName=old\nstorePathRootDir=/nowhere\ntraceOn=false\n")
    with ConfiguredBroker(tmp_path) as broker:
        found = shown(broker)
    assert (found["traceOn"], found["storePathRootDir"]) == ("false", str(store))
    assert found["brokerName"] != "old"
    keys = '"brokerName, listenPort, storePathRootDir"'
    assert f"settings that no request can change ignored path={file} keys={keys}" in broker.log


@pytest.mark.parametrize("content", [b"traceOn=perhaps\n", b"\xff\xfe\n"])
def test_a_damaged_file_is_named(tmp_path, content):
    store = tmp_path / "store"
    store.mkdir()
    (store / "broker.properties").write_bytes(content)
    broker = ConfiguredBroker(tmp_path)
    try:
        with pytest.raises(AssertionError, match=r"broker\.properties|traceOn=perhaps"):
            broker.start()
    finally:
        broker.kill()
