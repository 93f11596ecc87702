"""kill -9 of a broker under load: what it acknowledged is there, once and in order.

A delayed message and a committed one come once, too, where the broker is ours: it finds by their
unique keys what it delivered and did not note. Apache's delivers them again.

COMETMQ_BROKER_KILL_CYCLES says how often.
"""

import asyncio
import os
import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from cometmq.errors import PeerError, WorldError
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.headers.transaction import EndTransactionHeader
from peers.clusters import CHOSEN, QUICK, running
from peers.comet import CometBroker
from peers.raw import GROUP, NotAnswered, RawClient, Sent

CYCLES = int(os.environ.get("COMETMQ_BROKER_KILL_CYCLES", "3"))
SEED = int(os.environ.get("COMETMQ_POWER_SEED", random.randrange(10**6)))
QUEUES = 4
LATE_WAIT_S_MAX = 60
CUT_OFF = 20  # commits that are on their way when the broker is killed

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
    unsure: dict[str, Sent] = field(default_factory=dict)  # halves whose end was not answered

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
            key = f"{history.sent:032X}"
            await client.send("Late", 0, body.encode(), {"DELAY": level, "UNIQ_KEY": key})
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
        await asyncio.sleep(0.01)


async def commit(client: RawClient, history: History, body: str) -> None:
    half = history.halves.pop(body)
    try:
        answer = await client.ask_any(RequestCode.END_TRANSACTION, ending(half))
    except (PeerError, WorldError):
        history.unsure[body] = half
    else:
        assert answer.code == 0, answer.remark
        history.ended.add(body)


def ending(half: Sent) -> EndTransactionHeader:
    return EndTransactionHeader(
        producer_group=GROUP, tran_state_table_offset=half.offset, commit_log_offset=half.physical,
        commit_or_rollback=int(MessageFlag.COMMIT), msg_id=half.offset_id,
    )  # fmt: skip


async def commit_again(client: RawClient, history: History) -> int:
    """Those whose end was not answered, as a producer does that is asked; how many had stood."""
    stood = 0
    for body, half in history.unsure.items():
        answer = await client.ask_any(RequestCode.END_TRANSACTION, ending(half))
        assert answer.code == 0 or "ended before" in str(answer.remark)
        stood += answer.code != 0
        history.ended.add(body)
    return stood


async def cycle(broker, history: History, chance: random.Random) -> None:
    async with RawClient(broker.address) as client:
        work = [keep_sending(client, queue_id, history) for queue_id in range(QUEUES)]
        work += [keep_delaying(client, history), keep_halving(client, history)]
        tasks = [asyncio.ensure_future(one) for one in work]
        await asyncio.sleep(chance.uniform(0.1, 1.0))
        for body in list(history.halves)[:CUT_OFF]:
            tasks.append(asyncio.ensure_future(commit(client, history, body)))
        await asyncio.sleep(chance.uniform(0, 0.002))
        broker.kill()
        await asyncio.gather(*tasks)
    await asyncio.to_thread(broker.start)


async def check(address: str, history: History, *, once: bool) -> None:
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
        stood = await commit_again(client, history)
        print(f"{len(history.unsure)} commits were not answered, {stood} of them had been made")
        halves = await wait_for_all(client, "Half", history.ended)
        late = await wait_for_all(client, "Late", history.late)
        twice = {body for body, count in (halves + late).items() if count > 1}
        print(f"{len(twice)} came more than once")
        assert not (once and twice), sorted(twice)


async def wait_for_all(client: RawClient, topic: str, wanted: set[str]) -> Counter[str]:
    """How often each has come, once all have."""
    async with asyncio.timeout(LATE_WAIT_S_MAX):
        while True:
            seen = Counter(one.body.decode() for one in await client.read(topic, 0))
            if not wanted - seen.keys():
                break
            await asyncio.sleep(0.2)
    assert all(body.partition("-")[0] == topic.lower() for body in seen)
    return seen


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
            await cycle(broker, history, chance)
        await check(broker.address, history, once=isinstance(broker, CometBroker))

    with running(kind, tmp_path, CONF | {"flushDiskType": f"{mode}_FLUSH"}) as cluster:
        asyncio.run(story(cluster.broker))
    assert len(history.load) > CYCLES * 5
    print(
        f"{mode}: {CYCLES} cycles, {len(history.load)} of {history.sent} sends acknowledged, "
        f"{len(history.late)} delayed, {len(history.ended)} halves ended"
    )
