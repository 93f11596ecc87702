"""Small parts of a push consumer: outcomes, workers, statistics, subscriptions, delays."""

import asyncio
import threading
from datetime import timedelta

import pytest

from client.received import received
from cometmq.client.consumer.push.handlers import Handlers, MessageHandler
from cometmq.client.consumer.push.listener import Listener, ListenerCall
from cometmq.client.consumer.push.process_queue import ProcessQueue
from cometmq.client.consumer.push.workers import LoopWorkers, ThreadWorkers
from cometmq.client.consumer.shared.outcomes import Ack, Commit, Retry, Suspend
from cometmq.client.consumer.shared.rebalance_trigger import RebalanceTrigger
from cometmq.client.consumer.shared.stats import SAMPLE_MS, ConsumerStats
from cometmq.client.consumer.shared.subscriptions import Subscriptions
from cometmq.errors import BadSetting
from cometmq.seams import RealClock
from cometmq.testing.clock import ManualClock


def call_of(handler, *bodies):
    messages = [received(offset, body) for offset, body in enumerate(bodies or (b"x",))]
    return ListenerCall(None, ProcessQueue(), messages, MessageHandler(handler))


def listener_of(clock=None, **how):
    return Listener(Handlers(), clock or RealClock(), **how)


def ran(handler, **how):
    call = call_of(handler, b"a", b"b")
    listener_of(**how).run(call)
    return call


def test_a_suspension_is_bounded_as_in_java():
    assert [Suspend(each).ms for each in (None, 0.001, 0.5, 1000, timedelta(seconds=2))] == [
        None, 10, 500, 30_000, 2_000,
    ]  # fmt: skip


@pytest.mark.parametrize("make", [lambda: Retry(-2), lambda: Retry(19), lambda: Ack(-1)])
def test_outcomes_that_cannot_be(make):
    with pytest.raises(BadSetting):
        make()


def test_a_handler_is_given_one_message_or_a_list():
    given = []
    ran(given.append)
    ran(given.append, batch_max=2)
    assert given[0].text() == "a"
    assert [message.text() for message in given[1]] == ["a", "b"]


@pytest.mark.parametrize(
    ("said", "orderly", "meant"),
    [
        (None, False, Ack()),
        (Retry(3), False, Retry(3)),
        (Commit(), True, Commit()),
        (Commit(), False, Retry()),
        (True, False, Retry()),
        (0, True, Retry()),
    ],
)
def test_what_a_listener_means(said, orderly, meant):
    assert ran(lambda message: said).outcome(orderly=orderly) == meant


def test_even_an_exit_is_a_failure():
    def handler(message):
        raise SystemExit

    assert ran(handler).outcome(orderly=False) == Retry()


def test_what_is_no_coroutine_function_runs_in_threads():
    class Handler:
        async def __call__(self, message): ...

    async def handler(message): ...

    assert [MessageHandler(each).is_async for each in (Handler(), handler, print)] == [
        True, True, False,
    ]  # fmt: skip


@pytest.mark.parametrize("is_async", [False, True])
def test_workers_run_so_many_at_a_time_and_tell_of_each(is_async):
    async def story():
        running, most, lock = 0, 0, threading.Lock()
        done = []

        def enter(change):
            nonlocal running, most
            with lock:
                running += change
                most = max(most, running)

        def plain(message):
            enter(1)
            released.wait(10)
            enter(-1)

        async def coroutine(message):
            enter(1)
            await asyncio.to_thread(released.wait, 10)
            enter(-1)

        released = threading.Event()
        if is_async:
            workers = LoopWorkers(3, done.extend, listener_of(), RealClock())
        else:
            workers = ThreadWorkers(3, done.extend, listener_of(), "test")
        calls = []
        while workers.has_room:
            calls.append(call_of(coroutine if is_async else plain))
            workers.give(calls[-1])
        assert len(calls) == 6
        asyncio.get_running_loop().call_later(0.05, released.set)
        await workers.wait_until_idle()
        assert sorted(map(id, done)) == sorted(map(id, calls))
        assert most <= 3
        workers.give(call_of(coroutine if is_async else plain))
        await workers.wait_until_idle()
        assert len(done) == 7
        workers.close()

    asyncio.run(story())


def test_a_coroutine_that_never_waits_leaves_the_loop_its_turns():
    async def story():
        clock, turns = ManualClock(), []

        async def handler(message):
            clock._monotonic_ms += 6  # as if it had computed for so long

        workers = LoopWorkers(1, lambda calls: None, listener_of(clock), clock)
        for _ in range(8):
            workers.give(call_of(handler))
        task = asyncio.create_task(asyncio.sleep(0))
        task.add_done_callback(lambda _: turns.append(workers._out))
        await workers.wait_until_idle()
        assert turns and turns[0] > 0

    asyncio.run(story())


def test_threads_outlive_a_loop_in_peace():
    released, begun = threading.Event(), threading.Event()

    def handler(message):
        begun.set()
        released.wait(10)

    async def story():
        workers = ThreadWorkers(1, lambda calls: None, listener_of(), "late")
        workers.give(call_of(handler))
        await asyncio.to_thread(begun.wait, 10)
        workers.close()

    asyncio.run(story())
    released.set()
    for thread in threading.enumerate():
        if thread.name.startswith("late"):
            thread.join(10)
            assert not thread.is_alive()


def test_rates_are_of_the_last_minute_and_failures_of_the_last_hour():
    async def story():
        clock = ManualClock()
        stats = ConsumerStats(clock)
        stats.pulled("T", 32, 4)
        stats.consumed("T", 32, 2, 8)
        await clock.advance(10_000)
        status = stats.status("T")
        assert (status.pull_tps, status.pull_rt) == (3.2, 4.0)
        assert (status.consume_ok_tps, status.consume_failed_tps) == (3.0, 0.2)
        assert (status.consume_rt, status.consume_failed_msgs) == (8.0, 2)
        for _ in range(7):
            await clock.advance(SAMPLE_MS)
            await stats.sample()
        status = stats.status("T")
        assert (status.pull_tps, status.consume_failed_msgs) == (0, 2)
        for _ in range(360):
            await stats.sample()
        assert stats.status("T").consume_failed_msgs == 0
        stats.forget("T")
        assert stats.status("T").consume_rt == 0

    asyncio.run(story())


def test_subscriptions_have_versions_that_only_grow():
    clock = ManualClock()
    table = Subscriptions("space", clock)
    assert table.add("T", "a || b") == "space%T"
    first = table.of("space%T")
    clock.jump(-1000)
    table.add("T")
    second = table.of("space%T")
    assert (first.tags_set, second.sub_string) == (["a", "b"], "*")
    assert second.sub_version > first.sub_version
    assert (table.remove("U"), table.remove("T"), len(table)) == (None, "space%T", 0)
    for topic, how in (("a b", {}), ("T", {"tags": "||"}), ("T", {"sql": "a >"})):
        with pytest.raises(BadSetting):
            table.add(topic, **how)


def test_failures_are_tried_again_later_each_time():
    async def story():
        clock = ManualClock()
        trigger, waits = RebalanceTrigger(clock, 1_000), []
        for _ in range(4):
            trigger.fire_later()
            trigger.fire_later()  # which is one failure
            waiting, begun = asyncio.create_task(trigger.wait()), clock.monotonic_ms()
            while not waiting.done():
                await clock.advance(50)
            waits.append(clock.monotonic_ms() - begun)
        assert waits == [250, 500, 1_000, 1_000]
        trigger.reset_delay()
        trigger.fire_later()
        await clock.advance(250)
        await asyncio.wait_for(trigger.wait(), 60)

    asyncio.run(story())
