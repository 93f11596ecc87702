"""kill -9 of a broker under load: what it acknowledged is there, once and in order.

COMETMQ_BROKER_KILL_CYCLES says how often.
"""

import asyncio
import os
import random
from dataclasses import dataclass, field

import pytest

from cometmq.errors import PeerError, WorldError
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.headers.transaction import EndTransactionHeader
from peers.clusters import CHOSEN, QUICK, running
from peers.raw import GROUP, NotAnswered, RawClient, Sent

CYCLES = int(os.environ.get("COMETMQ_BROKER_KILL_CYCLES", "3"))
SEED = int(os.environ.get("COMETMQ_POWER_SEED", random.randrange(10**6)))
QUEUES = 4
LATE_WAIT_S_MAX = 60

pytestmark = [pytest.mark.apache, pytest.mark.timeout(1800)]

# Nobody is asked about a half message here: we end it ourselves, after the last restart.
CONF = QUICK | {"transactionTimeOut": 3_600_000, "autoCreateSubscriptionGroup": "true"}


@dataclass
class History:
    """What was sent and what was promised."""

    sent: int = 0
    load: dict[int, Sent] = field(default_factory=dict)  # by number: where it was told to be
    late: set[str] = field(default_factory=set)
    halves: dict[str, Sent] = field(default_factory=dict)  # not yet ended
    ended: set[str] = field(default_factory=set)
    unsure: set[str] = field(default_factory=set)  # halves whose end was not answered

    def next_number(self) -> int:
        self.sent += 1
        return self.sent


async def keep_sending(client: RawClient, queue_id: int, history: History) -> None:
    """One after the other, until the broker dies. What is not answered is never sent again."""
    while True:
        number = history.next_number()
        try:
            place = await client.send("Load", queue_id, str(number).encode())
        except (PeerError, WorldError, NotAnswered):
            return
        history.load[number] = place


async def keep_delaying(client: RawClient, history: History) -> None:
    while True:
        body = f"late-{history.next_number()}"
        level = str(1 + len(history.late) % 3)
        try:
            await client.send("Late", 0, body.encode(), {"DELAY": level})
        except (PeerError, WorldError, NotAnswered):
            return
        history.late.add(body)
        await asyncio.sleep(0.05)


async def keep_halving(client: RawClient, history: History) -> None:
    """Every other half message is committed at once."""
    while True:
        body = f"half-{history.next_number()}"
        properties = {"TRAN_MSG": "true", "PGROUP": GROUP, "UNIQ_KEY": f"{history.sent:032X}"}
        try:
            half = await client.send(
                "Half", 0, body.encode(), properties, int(MessageFlag.PREPARED)
            )
        except (PeerError, WorldError, NotAnswered):
            return
        history.halves[body] = half
        if history.sent % 2:
            await commit(client, history, body)
        await asyncio.sleep(0.05)


async def commit(client: RawClient, history: History, body: str) -> None:
    half = history.halves.pop(body)
    header = EndTransactionHeader(
        producer_group=GROUP, tran_state_table_offset=half.offset, commit_log_offset=half.physical,
        commit_or_rollback=int(MessageFlag.COMMIT), msg_id=half.offset_id,
    )  # fmt: skip
    try:
        await client.ask(RequestCode.END_TRANSACTION, header)
    except (PeerError, WorldError, NotAnswered):
        history.unsure.add(body)
    else:
        history.ended.add(body)


async def cycle(broker, history: History, seconds: float) -> None:
    async with RawClient(broker.address) as client:
        work = [keep_sending(client, queue_id, history) for queue_id in range(QUEUES)]
        work += [keep_delaying(client, history), keep_halving(client, history)]
        tasks = [asyncio.ensure_future(one) for one in work]
        await asyncio.sleep(seconds)
        broker.kill()
        await asyncio.gather(*tasks)
    await asyncio.to_thread(broker.start)


async def check(address: str, history: History) -> None:
    async with RawClient(address) as client:
        found: dict[int, Sent] = {}
        for queue_id in range(QUEUES):
            messages = await client.read("Load", queue_id)
            assert [one.queue_offset for one in messages] == list(range(len(messages)))
            numbers = [int(one.body) for one in messages]
            assert numbers == sorted(set(numbers)), "in the order of sending, and none twice"
            for number, one in zip(numbers, messages, strict=True):
                found[number] = Sent(queue_id, one.queue_offset, one.physical_offset, "")
        assert max(found) <= history.sent
        for number, place in history.load.items():
            assert number in found, f"{number} was acknowledged and is gone"
            told = Sent(place.queue_id, place.offset, place.physical, "")
            assert found[number] == told, f"{number} is not where it was"
        for body in list(history.halves):
            await commit(client, history, body)
        assert not history.halves
        await wait_for_all(client, "Half", history.ended)
        await wait_for_all(client, "Late", history.late)


async def wait_for_all(client: RawClient, topic: str, wanted: set[str]) -> None:
    """At least once each: a delivery that was not noted before the kill is made again."""
    async with asyncio.timeout(LATE_WAIT_S_MAX):
        while wanted - (seen := {one.body.decode() for one in await client.read(topic, 0)}):
            await asyncio.sleep(0.2)
    assert all(body.partition("-")[0] == topic.lower() for body in seen)


@pytest.mark.parametrize("mode", ["SYNC", "ASYNC"])
@pytest.mark.parametrize("kind", CHOSEN)
def test_kills(kind, mode, tmp_path):
    print(f"COMETMQ_POWER_SEED={SEED}")
    chance = random.Random(SEED)
    history = History()

    async def story(broker) -> None:
        async with RawClient(broker.address) as client:
            for topic, queues in (("Load", QUEUES), ("Late", 1), ("Half", 1)):
                await client.make_topic(topic, queues)
        for _ in range(CYCLES):
            await cycle(broker, history, chance.uniform(0.1, 1.0))
        await check(broker.address, history)

    with running(kind, tmp_path, CONF | {"flushDiskType": f"{mode}_FLUSH"}) as cluster:
        asyncio.run(story(cluster.broker))
    assert len(history.load) > CYCLES * 5
    print(
        f"{mode}: {CYCLES} cycles, {len(history.load)} of {history.sent} sends acknowledged, "
        f"{len(history.late)} delayed, {len(history.ended)} halves ended"
    )
