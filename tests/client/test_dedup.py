"""Dedup around a listener."""

import asyncio
import threading
from datetime import timedelta

import pytest

from client.received import received
from cometmq.client.consumer.shared.outcomes import Ack, Commit, Retry, Rollback, Suspend
from cometmq.client.dedup.attempt import KeyVerdict
from cometmq.client.dedup.dedup import Dedup, only_key
from cometmq.client.dedup.stores import MemoryStore
from cometmq.errors import BadMessage, BadSetting, InProgress
from cometmq.testing.clock import ManualClock

MESSAGE = received(properties={"KEYS": "order-1"})
OTHER = received(properties={"KEYS": "order-2"})


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def store(clock):
    return MemoryStore(clock)


@pytest.fixture
def dedup(store):
    return Dedup(store)


def test_a_listener_runs_once_a_key(dedup):
    ran = []
    listener = dedup.guard(lambda message: ran.append(message) or "ok")
    assert listener(MESSAGE) == "ok"
    assert listener(MESSAGE) is None
    assert listener(OTHER) == "ok"
    assert ran == [MESSAGE, OTHER]


def test_a_listener_that_raised_runs_again(dedup):
    def fails(message):
        raise ConnectionError("no database")

    with pytest.raises(ConnectionError):
        dedup.guard(fails)(MESSAGE)
    assert dedup.guard(lambda message: "ok")(MESSAGE) == "ok"


def test_a_result_that_is_not_done_runs_again(dedup):
    listener = dedup.guard(lambda message: "retry", is_done=lambda result: result != "retry")
    assert listener(MESSAGE) == "retry"
    assert dedup.begin(MESSAGE).verdict is KeyVerdict.RUN


@pytest.mark.parametrize("outcome", [Retry(), Suspend(), Rollback(), Ack(0)])
def test_an_outcome_by_which_a_message_comes_again_is_not_done(dedup, outcome):
    async def listener(message):
        return outcome

    assert dedup.guard(lambda message: outcome)(MESSAGE) == outcome
    assert dedup.begin(MESSAGE).verdict is KeyVerdict.RUN
    assert asyncio.run(dedup.guard_async(listener)(OTHER)) == outcome
    assert dedup.begin(OTHER).verdict is KeyVerdict.RUN


@pytest.mark.parametrize("outcome", [None, Ack(), Ack(1), Commit()])
def test_an_outcome_by_which_it_is_consumed_is_done(dedup, outcome):
    assert dedup.guard(lambda message: outcome)(MESSAGE) == outcome
    assert dedup.begin(MESSAGE).verdict is KeyVerdict.SKIP


def test_in_progress_elsewhere_is_later(dedup):
    assert dedup.begin(MESSAGE).verdict is KeyVerdict.RUN
    assert dedup.begin(MESSAGE).verdict is KeyVerdict.LATER
    with pytest.raises(InProgress, match="order-1 is in progress"):
        dedup.guard(lambda message: "ok")(MESSAGE)


def test_who_lost_the_lease_cannot_release_it(store):
    clock = ManualClock()
    dedup = Dedup(MemoryStore(clock), lease=timedelta(seconds=1))
    slow = dedup.begin(MESSAGE)
    clock._monotonic_ms += 1000
    assert dedup.begin(MESSAGE).verdict is KeyVerdict.RUN
    slow.release()
    assert dedup.begin(MESSAGE).verdict is KeyVerdict.LATER
    slow.done()
    assert dedup.begin(MESSAGE).verdict is KeyVerdict.SKIP


def test_done_ends_with_the_retention(clock, store):
    dedup = Dedup(store, retention=3600)
    dedup.begin(MESSAGE).done()
    clock._monotonic_ms += 3_599_999
    assert dedup.begin(MESSAGE).verdict is KeyVerdict.SKIP
    clock._monotonic_ms += 1
    assert dedup.begin(MESSAGE).verdict is KeyVerdict.RUN


def test_groups_that_share_a_store_are_apart(store):
    assert Dedup(store, scope="a").begin(MESSAGE).verdict is KeyVerdict.RUN
    assert Dedup(store, scope="b").begin(MESSAGE).verdict is KeyVerdict.RUN
    assert Dedup(store, scope="a").begin(MESSAGE).verdict is KeyVerdict.LATER


def test_a_key_of_ones_own(store):
    dedup = Dedup(store, key=lambda message: message.json()["id"])
    assert dedup.begin(received(body=b'{"id": "7"}')).verdict is KeyVerdict.RUN
    assert dedup.begin(received(1, body=b'{"id": "7", "n": 2}')).verdict is KeyVerdict.LATER


@pytest.mark.parametrize("keys", ["", "a b"])
def test_no_key_or_several_need_a_choice(keys):
    with pytest.raises(BadMessage, match="give Dedup a `key`"):
        only_key(received(properties={"KEYS": keys}))


@pytest.mark.parametrize(
    "times", [{"lease": timedelta(0)}, {"lease": 0}, {"retention": timedelta(-1)}, {"lease": "1h"}]
)
def test_times_are_positive(store, times):
    with pytest.raises(BadSetting, match=r"^(lease|retention) is .*: it must be "):
        Dedup(store, **times)


def test_coroutines_run_once_a_key_and_again_after_a_cancel(dedup):
    ran = []

    async def listener(message):
        ran.append(message)
        await asyncio.sleep(0)
        return "ok"

    async def scenario():
        guarded = dedup.guard_async(listener)
        first = asyncio.create_task(guarded(MESSAGE))
        await asyncio.sleep(0)
        with pytest.raises(InProgress):
            await guarded(MESSAGE)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await guarded(MESSAGE) == "ok"
        assert await guarded(MESSAGE) is None

    asyncio.run(scenario())
    assert ran == [MESSAGE, MESSAGE]


class SlowStore(MemoryStore):
    """Waits, as a disk would have it."""

    blocks = True

    def __init__(self, clock):
        super().__init__(clock)
        self.begun, self.may_go = threading.Event(), threading.Event()

    def begin(self, key, owner, lease_ms):
        self.begun.set()
        self.may_go.wait(10)
        if key == "/broken":
            raise OSError("no disk")
        return super().begin(key, owner, lease_ms)


@pytest.mark.parametrize("key", ["order-1", "broken"])
def test_a_call_cancelled_while_it_begins_frees_its_key(clock, key):
    store = SlowStore(clock)
    message = received(properties={"KEYS": key})

    async def scenario():
        async def listener(message):
            raise AssertionError("never called")

        call = asyncio.create_task(Dedup(store).guard_async(listener)(message))
        await asyncio.to_thread(store.begun.wait, 10)
        call.cancel()
        await asyncio.sleep(0)
        store.may_go.set()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(scenario())
    assert len(store) == 0


def test_a_store_that_blocks_is_called_on_a_thread(clock):
    store = SlowStore(clock)
    ran = []

    async def scenario():
        async def listener(message):
            ran.append(message)

        call = asyncio.create_task(Dedup(store).guard_async(listener)(MESSAGE))
        await asyncio.to_thread(store.begun.wait, 10)
        store.may_go.set()  # which the loop could not do while the store blocked it
        await call
        await Dedup(store).guard_async(listener)(MESSAGE)

    asyncio.run(scenario())
    assert ran == [MESSAGE]


def test_a_coroutine_given_to_guard_is_refused(dedup):
    async def listener(message):
        return None

    with pytest.raises(BadSetting, match="guard_async"):
        dedup.guard(listener)


def test_what_makes_a_coroutine_is_refused_when_it_does_and_its_key_is_free(dedup):
    async def work(message):
        raise AssertionError("it never runs")

    for _ in range(2):
        with pytest.raises(BadSetting, match="makes a coroutine: use guard_async"):
            dedup.guard(lambda message: work(message))(MESSAGE)


@pytest.mark.parametrize("is_async", [False, True])
def test_an_end_that_fails_leaves_no_key_in_progress(dedup, is_async):
    ran, answers = [], [ValueError("not today"), True]

    def is_done(result):
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def run():
        if not is_async:
            return dedup.guard(ran.append, is_done)(MESSAGE)

        async def listener(message):
            ran.append(message)

        async def call():
            return await dedup.guard_async(listener, is_done)(MESSAGE)

        return asyncio.run(call())

    with pytest.raises(ValueError, match="not today"):
        run()
    run()
    assert ran == [MESSAGE, MESSAGE]
