"""Groups moved in every way, with members and without; and the table of what changed."""

import asyncio
import time
from itertools import count

import pytest

from peers.raw import RawClient

CLUSTER = "DefaultCluster"
COUNT = 6
NUMBERS = count()


@pytest.fixture
def topic(request, site):
    """A topic with two queues, the first with six messages, half of which `away` has consumed."""
    name = f"{request.node.originalname.removeprefix('test_')}_{next(NUMBERS)}"
    site.run("updateTopic", "-c", CLUSTER, "-t", name, "-r", 2, "-w", 2)
    site.run("updateSubGroup", "-c", CLUSTER, "-g", "away")

    async def fill():
        async with RawClient(site.broker.address) as client:
            for number in range(COUNT):
                await client.send(name, 0, b"%d" % number)
            await client.until_end(name, 0, COUNT)
            await client.commit_offset("away", name, 0, COUNT // 2)

    asyncio.run(fill())
    return name


def consumed(site, topic, group="away"):
    async def ask():
        async with RawClient(site.broker.address) as client:
            return await client.consumed(group, topic, 0)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("words", "goal"),
    [
        ("--to-earliest", 0),
        ("--to-latest", COUNT),
        ("--to-offset 2", 2),
        ("--to-offset 99", COUNT),  # no further than the end
        ("--shift-by -1", COUNT // 2 - 1),
        ("--shift-by 2", COUNT // 2 + 2),
        ("--shift-by -99", 0),
        ("--to-time 0", 0),
        ("--to-time now", COUNT),
    ],
)
def test_offline_reset(site, topic, words, goal):
    moves = site.ask("offset", "reset", "-g", "away", "-t", topic, *words.split())
    assert [move["queueId"] for move in moves] == [0, 1]
    first = moves[0]
    assert (first["consumerOffset"], first["newOffset"]) == (COUNT // 2, goal)
    assert first["change"] == f"{goal - COUNT // 2:+d}"
    assert (first["minOffset"], first["brokerOffset"]) == (0, COUNT)
    assert {move["outcome"] for move in moves} == {"success"}
    assert consumed(site, topic) == goal


def test_reset_to_a_moment(site, topic):
    """The first message that was stored then or later."""
    time.sleep(1.1)  # times of two messages differ, however coarse the broker's are

    async def more():
        async with RawClient(site.broker.address) as client:
            await client.send(topic, 0, b"later")
            await client.until_end(topic, 0, COUNT + 1)
            return await client.read(topic, 0)

    # Nearer to it than to the one before, which is what Apache's goes by.
    moment = asyncio.run(more())[-1].stored_ms - 100
    moves = site.ask("resetOffsetByTime", "-g", "away", "-t", topic, "-s", moment)
    assert moves[0]["newOffset"] == COUNT == consumed(site, topic)
    back = site.ask("resetOffsetByTime", "-g", "away", "-t", topic, "-s", "now", "-f", "false")
    assert back[0]["newOffset"] == COUNT, "not forwards, unless it is forced"


def test_reset_of_one_queue(site, topic):
    given = ("-g", "away", "-t", topic, "--queue", 1, "--broker-name", "broker-a")
    (move,) = site.ask("offset", "reset", *given, "--to-earliest")
    assert (move["queueId"], move["brokerName"]) == (1, "broker-a")
    assert consumed(site, topic) == COUNT // 2, "the other one stays"
    said = site.run(
        "offset", "reset", "-g", "away", "-t", topic, "--queue", 7, "--to-latest", code=1
    )
    assert "no matching queue" in said


def test_dry_reset(site, topic):
    moves = site.ask("offset", "reset", "-g", "away", "-t", topic, "--to-latest", "--dry-run")
    assert (moves[0]["newOffset"], moves[0]["outcome"]) == (COUNT, "not done: dry run")
    assert consumed(site, topic) == COUNT // 2


def test_clone(site, topic):
    moves = site.ask("offset", "clone", "-s", "away", "-d", "copy", "-t", topic)
    assert [move["newOffset"] for move in moves] == [COUNT // 2, 0]
    assert consumed(site, topic, "copy") == COUNT // 2


@pytest.mark.parametrize("words", ["", "--to-latest --to-earliest", "--to-offset 1 --shift-by 1"])
def test_one_target_is_needed(site, words):
    said = site.run("offset", "reset", "-g", "g", "-t", "t", *words.split(), code=2)
    assert "give exactly one of --to-earliest" in said


@pytest.mark.apache
def test_online_reset(site, at_work):
    """Members are notified, discard pulled messages and continue at the new offsets."""
    first = at_work.sent["msgId"]
    moves = site.ask("offset", "reset", "-g", "takers", "-t", "Work", "--to-earliest")
    assert {(move["newOffset"], move["outcome"]) for move in moves} == {(0, "success")}
    deadline = time.monotonic() + 60
    while at_work.taker.next(timeout=150).get("msgId") != first:
        assert time.monotonic() < deadline, "it is not consumed again"
    for words in (("resetOffsetByTime", "-s", "now"), ("skipAccumulatedMessage",)):
        moves = site.ask(*words, "-g", "takers", "-t", "Work")
        assert {move["outcome"] for move in moves} == {"success"}
        assert sum(move["newOffset"] for move in moves) > 0


@pytest.mark.apache
def test_dry_online_reset(site, at_work):
    moves = site.ask("offset", "reset", "-g", "takers", "-t", "Work", "--to-earliest", "--dry-run")
    assert {(move["newOffset"], move["outcome"]) for move in moves} == {(0, "not done: dry run")}


@pytest.mark.apache
@pytest.mark.parametrize("words", ["--to-offset 0", "--shift-by -1", "--to-latest --queue 0"])
def test_what_members_would_overwrite_is_refused(site, at_work, words):
    said = site.run("offset", "reset", "-g", "takers", "-t", "Work", *words.split(), code=2)
    assert "has members" in said and "stop them first" in said
    said = site.run("cloneGroupOffset", "-s", "takers", "-d", "takers", "-t", "Work", code=2)
    assert "has members" in said
