"""A broker whose queue file was partly zeroed between two runs: pulls get every message."""

import asyncio

from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.flags import PullFlag
from cometmq.protocol.headers.base import read_header
from cometmq.protocol.headers.pull import PullHeader, PullReplyHeader
from cometmq.protocol.records.message import unpack_records
from peers.comet import CometBroker, CometNamesrv
from peers.raw import RawClient

COUNT = 300
NOTHING_YET = ResponseCode.PULL_NOT_FOUND


def pull(offset: int) -> PullHeader:
    return PullHeader(
        consumer_group="G", topic="T", queue_id=0, queue_offset=offset, max_msg_nums=32,
        sys_flag=int(PullFlag.SUBSCRIPTION | PullFlag.SUSPEND), commit_offset=0,
        suspend_timeout_millis=15_000, subscription="*", sub_version=0, expression_type="TAG",
    )  # fmt: skip


async def send_all(address: str) -> None:
    async with RawClient(address) as client:
        await client.make_topic("T", 1)
        for i in range(COUNT):
            await client.send("T", 0, b"%d" % i)


async def consume_all(address: str) -> list[int]:
    """Pulls wait for units that are being rebuilt: none is answered with nothing found."""
    got: list[int] = []
    async with RawClient(address) as client:
        offset = 0
        while offset < COUNT:
            answer = await client.ask_any(RequestCode.PULL_MESSAGE, pull(offset))
            assert answer.code == ResponseCode.SUCCESS, answer
            got += [int(one.body) for one in unpack_records(answer.body)]
            offset = read_header(answer, PullReplyHeader).next_begin_offset
        info = (await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO, None)).body
    assert b'"consumeQueueRebuilds":"1"' in info
    assert b"commitLogDamaged" not in info
    return got


def test_all_messages_are_pulled_and_the_log_names_the_file(tmp_path):
    with CometNamesrv(tmp_path / "namesrv") as namesrv:
        broker = CometBroker(tmp_path / "broker", namesrv=namesrv.address)
        with broker:
            asyncio.run(send_all(broker.address))
        (path,) = (tmp_path / "broker").glob(f"**/consumequeue/T/0/{0:020}")
        with path.open("r+b") as file:
            file.seek(20 * 40)
            file.write(bytes(20 * 200))
        with broker:
            assert asyncio.run(consume_all(broker.address)) == list(range(COUNT))
        assert f"{path}: 200 units from queue offset 40 to 239 were damaged" in broker.log
