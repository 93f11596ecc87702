"""Accounts: an Apache broker with access control takes what is signed, and nothing else."""

import asyncio

import pytest

from cometmq.client.config import ClientConfig
from cometmq.client.consumer.push.push import PushConsumer
from cometmq.client.message import Message
from cometmq.client.send.producer import Producer
from cometmq.errors import BadSetting, Refused
from peers.apache import ApacheBroker
from peers.comet import CometNamesrv

ACCESS, SECRET = "a-sender", "a secret of mine"  # both of more than six characters
ACCOUNTS = f"""
globalWhiteRemoteAddresses: []
accounts:
- accessKey: {ACCESS}
  secretKey: {SECRET}
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: PUB|SUB
  topicPerms:
  - Allowed=PUB|SUB
"""


@pytest.fixture(scope="module")
def address(apache_class_path, tmp_path_factory):
    """Of the name server of a broker with accounts."""
    folder = tmp_path_factory.mktemp("accounts")
    (folder / "broker" / "conf").mkdir(parents=True)
    (folder / "broker" / "conf" / "plain_acl.yml").write_text(ACCOUNTS)
    with CometNamesrv(folder / "namesrv") as namesrv:
        broker = ApacheBroker(
            folder / "broker", namesrv=namesrv.address, conf={"aclEnable": "true"}
        ).start()
        yield namesrv.address
        broker.kill()


def client(address, secret=SECRET):
    return ClientConfig(name_servers=address, access_key=ACCESS, secret_key=secret)


def test_what_is_signed_is_taken_and_consumed(address):
    async def story():
        taken = asyncio.Queue()
        async with Producer("p", client=client(address)) as producer:
            await producer.send(Message("Allowed", "first", properties={"umlaut": "ä"}))
            consumer = PushConsumer("c", client=client(address))
            consumer.subscribe("Allowed")
            consumer.listen(taken.put)
            async with consumer:
                await producer.send(Message("Allowed", "x" * 10_000, keys="k"))
                while (await asyncio.wait_for(taken.get(), 60)).text() != "x" * 10_000:
                    pass
            with pytest.raises(Refused, match="permission for topic:Forbidden"):
                await producer.send(Message("Forbidden", "x"))

    asyncio.run(story())


@pytest.mark.parametrize("who", ["nobody", "liar"])
def test_what_is_not_rightly_signed_is_refused(address, who):
    async def story():
        config = client(address, "wrong") if who == "liar" else ClientConfig(name_servers=address)
        async with Producer("p", client=config) as producer:
            with pytest.raises(Refused) as refused:
                await producer.send(Message("Allowed", "x"))
        assert SECRET not in str(refused.value)

    asyncio.run(story())


def test_a_secret_is_not_shown_and_half_an_account_is_none(address):
    assert SECRET not in repr(client(address))
    with pytest.raises(BadSetting, match="belong together"):
        ClientConfig(name_servers=address, access_key=ACCESS)
