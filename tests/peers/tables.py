"""The tables that an Apache broker keeps in its config folder, after a little of everything."""

import asyncio
import tempfile
from pathlib import Path

from cometmq.protocol.bodies.heartbeat import ConsumerData, Heartbeat, Subscription
from cometmq.protocol.bodies.tables import GroupConfig
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.base import NoHeader
from cometmq.protocol.java.fastjson import dumps
from peers.apache import ApacheBroker, ApacheNamesrv
from peers.raw import RawClient

TABLES = ("topics", "subscriptionGroup", "consumerOffset", "delayOffset", "consumerFilter")
_WRITTEN_S_MAX = 60
_CONF = {
    "enablePropertyFilter": "true",
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
}


def kept_tables() -> list[dict[str, str]]:
    """Entries of a golden file: its name, and its text as it was on disk."""
    with tempfile.TemporaryDirectory(prefix="tables-") as folder:
        home = Path(folder)
        with ApacheNamesrv(home / "namesrv") as namesrv:
            broker = ApacheBroker(home / "broker", namesrv=namesrv.address, conf=_CONF).start()
            try:
                asyncio.run(_fill(broker.address))
                texts = asyncio.run(_read(home / "broker" / "store" / "config"))
            finally:
                broker.kill()  # an orderly stop takes it long
    return [{"name": f"{name}.json", "text": text} for name, text in texts.items()]


async def _fill(address: str) -> None:
    """Topics, a group, offsets out of order, delayed messages, a consumer with a condition."""
    async with RawClient(address) as client:
        await client.make_topic("Orders", 4)
        group = GroupConfig(group_name="takers", retry_max_times=7)
        await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, NoHeader(), dumps(group))
        for level in ("1", "2"):
            await client.send("Orders", 0, b"late", {"DELAY": level})
        for queue_id, offset in ((3, 12), (0, 1), (10, 7), (1, 0)):
            await client.commit_offset("takers", "Orders", queue_id, offset)
        await client.commit_offset("others", "Orders", 0, 2)
        condition = Subscription(
            topic="Orders", sub_string="a > 1 AND b = 'x'", expression_type="SQL92", sub_version=1
        )
        consumer = ConsumerData(group_name="takers", subscription_data_set=[condition])
        beat = Heartbeat(client_id="c1", consumer_data_set=[consumer])
        await client.ask(RequestCode.HEART_BEAT, NoHeader(), dumps(beat))
        await client.until_end("Orders", 0, 2)


async def _read(folder: Path) -> dict[str, str]:
    """All of them, as soon as it has written the last: it does that every ten seconds."""
    async with asyncio.timeout(_WRITTEN_S_MAX):
        while True:
            texts = {
                name: path.read_text()
                for name in TABLES
                if (path := folder / f"{name}.json").exists()
            }
            # What they hold last: the second level delivered, and the consumer's condition.
            if "2:1" in texts.get("delayOffset", "") and "b = 'x'" in texts.get(
                "consumerFilter", ""
            ):
                return texts
            await asyncio.sleep(0.5)
