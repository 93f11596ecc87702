"""No send that a broker may have stored is reported as not stored."""

import asyncio
from dataclasses import replace
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from client.fake_cluster import CUT, SILENT, fake_cluster, run
from cometmq.client.config import ProducerConfig
from cometmq.client.message import Message, SendResult
from cometmq.client.send.producer import Producer
from cometmq.errors import TimedOut, Unreachable
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.records.properties import decode_properties
from cometmq.remoting.limits import CLIENT_LIMITS
from cometmq.remoting.loops import quick_loop
from searches import examples

FINE, BUSY, FAILED = ResponseCode.SUCCESS, ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_ERROR
MAYBE_STORED = SendResult | TimedOut | Unreachable
TURN = None

ways = st.tuples(
    st.sampled_from(("send", "send_soon")),
    st.sampled_from((1, 5000)),  # bytes
    st.sampled_from((None, "k")),  # sharding key
    st.sampled_from((30, 150)),  # ms
)
answers = st.lists(st.sampled_from((FINE, FINE, BUSY, FAILED, CUT, SILENT)), max_size=30)


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, quick_loop])
@given(
    steps=st.lists(st.one_of(ways, ways, st.just(TURN)), min_size=3, max_size=20),
    answers=answers,
    in_flight_max=st.sampled_from((2, 100)),
    held_ms=st.sampled_from((0, 60)),
    is_forgotten=st.booleans(),
)
@settings(max_examples=examples(20))
def test_outcomes_are_true(loop_factory, steps, answers, in_flight_max, held_ms, is_forgotten):
    limits = replace(CLIENT_LIMITS, async_max=in_flight_max)

    async def test():
        async with fake_cluster() as cluster:
            cluster.queues = {"TBW102": 2}
            config = ProducerConfig(group="senders", send_timeout=0.3)
            async with Producer(config, cluster.name_servers) as producer:
                for _ in range(2):
                    await producer.send(Message("fresh", b"warm"), timeout=10)
                broker = cluster["a"]
                broker.answered.clear()
                broker.answers = answers[:]
                broker.held = asyncio.Event()
                asyncio.get_running_loop().call_later(held_ms / 1000, broker.held.set)
                told, tasks = {}, []
                for number, step in enumerate(steps):
                    if step is TURN:
                        await asyncio.sleep(0)
                    else:
                        tasks.append(begin(producer, str(number), step, told))
                if is_forgotten:
                    cluster.queues = {}  # and soon the guess, too
                await asyncio.gather(*tasks)
                assert len(told) == len(steps) - steps.count(TURN)
                for number, seen in seen_by(broker).items():
                    if seen - {BUSY, FAILED}:
                        assert isinstance(told[number], MAYBE_STORED), seen

    with (
        patch("cometmq.client.session.session.CLIENT_LIMITS", limits),
        patch("cometmq.client.send.destinations._GUESS_MS", 20),
    ):
        run(test, loop_factory)


def begin(producer, number, step, told):
    way, size, key, timeout_ms = step
    message = Message("fresh", b"x" * size, keys=number, sharding_key=key)
    is_over = asyncio.get_running_loop().create_future()

    def tell(outcome):
        told[number] = outcome
        is_over.set_result(None)

    if way == "send":
        task = asyncio.create_task(producer.send(message, timeout=timeout_ms / 1000))
        task.add_done_callback(lambda task: tell(task.exception() or task.result()))
    else:
        producer.send_soon(message, tell, timeout=timeout_ms / 1000)
    return is_over


def seen_by(broker):
    """How it answered the tries of each send."""
    found = {}
    for ask, answer in broker.answered:
        found.setdefault(decode_properties(ask.properties)["KEYS"], set()).add(answer)
    return found
