"""The thread that runs clients for code that does not await."""

import asyncio
import os
import signal
import subprocess
import sys
import threading

import pytest

from cometmq.client.loop import LoopThread, loop_thread
from cometmq.errors import Closed, TooManyRequests, UserError


async def echo(value):
    await asyncio.sleep(0)
    return value


async def fail():
    raise ValueError("as asked")


async def thread_name():
    return threading.current_thread().name


def test_what_is_awaited_there_is_returned_here():
    thread = loop_thread()
    assert thread.wait(echo(5)) == 5
    assert thread.wait(thread_name()) == "cometmq"
    assert loop_thread() is thread, "one a process"


def test_what_is_raised_there_is_raised_here():
    with pytest.raises(ValueError, match="as asked"):
        loop_thread().wait(fail())


def test_many_threads_have_each_their_own_answer():
    thread = loop_thread()
    wrong = []

    def ask(number):
        wrong.extend(each for each in range(300) if thread.wait(echo((number, each)))[1] != each)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(16)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert not wrong


def test_all_that_is_wanted_at_once_wakes_the_loop_once():
    thread = LoopThread()
    is_held, goes_on = threading.Event(), threading.Event()
    woken = 0
    wake = thread._loop.call_soon_threadsafe

    def counted(*args):
        nonlocal woken
        woken += 1
        return wake(*args)

    def hold():
        is_held.set()
        goes_on.wait()

    thread.post(hold)
    is_held.wait()
    thread._loop.call_soon_threadsafe = counted
    done = []
    for number in range(100):
        thread.post(lambda number=number: done.append(number))
    assert woken == 1
    goes_on.set()
    assert thread.wait(echo(1)) == 1
    assert done == list(range(100))


def test_what_is_posted_is_bounded(monkeypatch):
    monkeypatch.setattr("cometmq.client.loop.CLIENT_ASYNC_MAX", 10)
    thread = LoopThread()
    is_held, goes_on = threading.Event(), threading.Event()

    def hold():
        is_held.set()
        goes_on.wait()

    thread.post(hold)
    is_held.wait()
    for _ in range(10):
        thread.post(lambda: None)
    with pytest.raises(TooManyRequests):
        thread.post(lambda: None)
    goes_on.set()
    assert thread.wait(echo(1)) == 1


def test_the_loop_cannot_wait_for_itself():
    thread = loop_thread()
    outcomes = []
    is_done = threading.Event()

    def callback():
        try:
            thread.wait(echo(1))
        except UserError as error:
            outcomes.append(str(error))
        is_done.set()

    thread.post(callback)
    is_done.wait()
    assert "runs on the event loop and cannot wait" in outcomes[0]


def test_an_interrupted_caller_takes_its_work_along():
    thread = loop_thread()
    begun, ended = threading.Event(), threading.Event()

    async def long():
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    def interrupt():
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        thread.wait(long())
    assert ended.wait(10)
    assert thread.wait(echo(2)) == 2


FORKED = """
import asyncio, os
from cometmq.client.loop import loop_thread
from cometmq.errors import Closed

async def one():
    return 1

parents = loop_thread()
assert parents.wait(one()) == 1
child = os.fork()
if child == 0:
    try:
        parents.wait(one())
    except Closed as error:
        assert "fork" in str(error)
        assert loop_thread() is not parents
        assert loop_thread().wait(one()) == 1
        os._exit(0)
    os._exit(1)
_, status = os.waitpid(child, 0)
assert status == 0, status
assert parents.wait(one()) == 1
print("both")
"""


def test_a_forked_child_has_a_thread_of_its_own():
    done = subprocess.run(
        [sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout == "both\n", done.stderr


def test_a_process_with_the_thread_ends():
    code = "from cometmq.client.loop import loop_thread; loop_thread(); print('end')"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "end\n", "")


def test_closed_is_raised_when_the_work_is_cancelled():
    async def cancelled():
        raise asyncio.CancelledError

    with pytest.raises(Closed):
        loop_thread().wait(cancelled())


def test_what_fails_does_not_hold_up_the_rest(caplog):
    thread = LoopThread()
    is_held, goes_on, done = threading.Event(), threading.Event(), threading.Event()
    thread.post(lambda: (is_held.set(), goes_on.wait(10)))
    assert is_held.wait(10)
    thread.post(lambda: 1 / 0)
    thread.post(done.set)
    goes_on.set()
    assert done.wait(10)
    assert thread.wait(echo(3)) == 3
    assert "ZeroDivisionError" in caplog.text


def test_a_signal_between_posting_and_waking_loses_nothing():
    thread = LoopThread()
    wake, done = thread._loop.call_soon_threadsafe, threading.Event()
    signals = [KeyboardInterrupt]

    def interrupted(work):
        if signals:
            raise signals.pop()
        wake(work)

    thread._loop.call_soon_threadsafe = interrupted
    with pytest.raises(KeyboardInterrupt):
        thread.post(done.set)
    assert done.wait(10), "it was handed over"
