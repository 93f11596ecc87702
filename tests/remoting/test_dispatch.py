"""From a request to a code: unknown, refused, failed, busy, and what hooks see of it."""

import asyncio
import logging
from typing import Any

import pytest

from cometmq.errors import BadName, Refused, TimedOut
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.headers.base import write_fields
from cometmq.protocol.limits import FRAME_SIZE_MAX
from cometmq.remoting.access import OPEN
from cometmq.remoting.dispatch import Dispatcher, Reply, Route
from cometmq.remoting.lanes import LaneLimit, Lanes
from remoting.rig import (
    ECHO,
    ECHOING,
    FAIL,
    NOBODY,
    PARK,
    NoteHeader,
    on_asyncio,
    pooling,
    serving,
    until,
)


def failing(error: Exception, *, later: bool) -> dict[int, Route]:
    """A handler that raises, at once or after a wait."""

    def fail(call: Any, ask: NoteHeader) -> Reply:
        raise error

    async def fail_later(call: Any, ask: NoteHeader) -> Reply:
        await asyncio.sleep(0)
        raise error

    return {FAIL: Route(fail_later if later else fail, NoteHeader, OPEN)} | ECHOING


@on_asyncio
async def test_an_unknown_code_is_answered_with_3():
    async with serving() as served, pooling() as pool:
        response = await pool.invoke(served.address, NOBODY, timeout_ms=5000)
        assert response.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED == 3
        assert str(NOBODY) in str(response.remark)


@on_asyncio
@pytest.mark.parametrize("later", [False, True])
async def test_a_server_bug_is_logged_and_answered_without_its_traceback(later, caplog):
    routes = failing(ZeroDivisionError("secret detail"), later=later)
    async with serving(routes) as served, pooling() as pool:
        response = await pool.invoke(served.address, FAIL, timeout_ms=5000)
        assert response.code == ResponseCode.SYSTEM_ERROR == 1
        for word in ("secret", "ZeroDivision", "Traceback", ".py"):
            assert word not in str(response.remark)
        assert [r.exc_info[1] for r in caplog.records if r.exc_info] == [
            routes_error(routes, caplog)
        ]
        assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0


def routes_error(routes: dict[int, Route], caplog: Any) -> BaseException:
    [record] = [r for r in caplog.records if r.levelno >= logging.ERROR]
    assert isinstance(record.exc_info[1], ZeroDivisionError)
    return record.exc_info[1]


@on_asyncio
@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused(ResponseCode.TOPIC_NOT_EXIST, "no such topic"), ResponseCode.TOPIC_NOT_EXIST),
        (Refused(40_000, "a code over a short"), 40_000),
        (BadName("a bad name"), ResponseCode.SYSTEM_ERROR),
        (TimedOut("a slow disk"), ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_refused_requests_keep_their_code_and_reason(error, code, later, caplog):
    async with serving(failing(error, later=later)) as served, pooling() as pool:
        response = await pool.invoke(served.address, FAIL, timeout_ms=5000)
        assert (response.code, response.remark) == (code, str(error))
        assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


@on_asyncio
async def test_fields_that_do_not_fit_are_refused_with_their_name():
    async with serving() as served, pooling() as pool:
        channel = await pool.connection(served.address)
        for number in ("x", "", "1.5", str(2**31), "9" * 5000, "١٢"):
            channel._request = request_with({"number": number}, channel)
            response = await channel.invoke(ECHO, timeout_ms=5000)
            assert response.code == ResponseCode.SYSTEM_ERROR, number
            assert "number" in str(response.remark)


def request_with(fields: dict[str, str], channel: Any) -> Any:
    make = type(channel)._request

    def request(*given: Any) -> Command:
        made = make(channel, *given)
        made.fields = write_fields(fields)
        return made

    return request


@on_asyncio
async def test_a_full_lane_answers_busy_and_recovers():
    opened = asyncio.Event()

    async def park(call: Any, ask: NoteHeader) -> Reply:
        await opened.wait()
        return Reply()

    routes = {
        PARK: Route(park, NoteHeader, OPEN, "pull"),
        FAIL: Route(park, NoteHeader, OPEN, "send"),
    } | ECHOING
    lanes = Lanes(100, {"pull": LaneLimit(2, "pullsAtOnce")})
    async with serving(routes, lanes=lanes) as served, pooling() as pool:

        def parked(code: int) -> "asyncio.Future[Command]":
            return asyncio.ensure_future(pool.invoke(served.address, code, timeout_ms=60_000))

        waiting = [parked(PARK), parked(PARK)]
        await until(lambda: lanes.in_flight("pull") == 2)
        busy = await pool.invoke(served.address, PARK, timeout_ms=5000)
        assert busy.code == ResponseCode.SYSTEM_BUSY == 2
        assert "in the pull lane, its limit, pullsAtOnce=2; try later" in str(busy.remark)
        waiting.append(parked(FAIL))  # another lane
        await until(lambda: lanes.in_flight("send") == 1)
        assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
        opened.set()
        assert [answer.code for answer in await asyncio.gather(*waiting)] == [0, 0, 0]
        assert lanes.in_flight("pull") == lanes.in_flight("send") == 0
        assert (await pool.invoke(served.address, PARK, timeout_ms=5000)).code == 0


class Noting:
    """A hook that notes, changes and refuses."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int, int | None]] = []

    def before(self, peer: str, request: Command) -> None:
        self.seen.append(("before", request.code, None))
        fields = request.ext_fields
        if fields.get("note") == "refuse":
            raise Refused(ResponseCode.NO_PERMISSION, "the hook says no")
        request.fields = write_fields(fields | {"note": fields.get("note", "") + "+"})

    def after(self, peer: str, request: Command, response: Command) -> None:
        self.seen.append(("after", request.code, response.code))


@on_asyncio
async def test_hooks_of_both_sides_see_and_change_every_call():
    ours, theirs = Noting(), Noting()
    async with serving(hooks=(theirs,)) as served, pooling(hooks=(ours,)) as pool:
        response = await pool.invoke(served.address, ECHO, NoteHeader(note="n"), timeout_ms=5000)
        assert response.ext_fields["note"] == "n++"  # signed by one side, then by the other
        assert ours.seen == theirs.seen == [("before", ECHO, None), ("after", ECHO, 0)]


@on_asyncio
async def test_a_hook_may_refuse_on_either_side():
    ours, theirs = Noting(), Noting()
    async with serving(hooks=(theirs,)) as served:
        async with pooling() as pool:
            answer = await pool.invoke(
                served.address, ECHO, NoteHeader(note="refuse"), timeout_ms=5000
            )
            assert answer.code == ResponseCode.NO_PERMISSION
            assert answer.remark == "the hook says no"
            assert theirs.seen == [("before", ECHO, None), ("after", ECHO, answer.code)]
        async with pooling(hooks=(ours,)) as pool:
            channel = await pool.connection(served.address)
            with pytest.raises(Refused):
                await channel.invoke(ECHO, NoteHeader(note="refuse"), timeout_ms=5000)
            assert len(channel._calls) == 0
            assert ours.seen == [("before", ECHO, None)]
            assert len(theirs.seen) == 2, "the refused request was sent"


@on_asyncio
async def test_each_hook_sees_a_request_and_its_last_answer_once():
    def huge(call: Any, ask: NoteHeader) -> Reply:
        return Reply(body=bytes(FRAME_SIZE_MAX))

    async def huge_later(call: Any, ask: NoteHeader) -> Reply:
        await asyncio.sleep(0)
        return huge(call, ask)

    routes = {
        PARK: Route(huge_later, NoteHeader, OPEN),
        FAIL: Route(huge, NoteHeader, OPEN),
    } | ECHOING
    first, second = Noting(), Noting()
    async with serving(routes, hooks=(first, second)) as served, pooling() as pool:
        for code, note, answered in (
            (FAIL, "", ResponseCode.SYSTEM_ERROR),
            (PARK, "", ResponseCode.SYSTEM_ERROR),
            (ECHO, "refuse", ResponseCode.NO_PERMISSION),
            (ECHO, "", ResponseCode.SUCCESS),
        ):
            answer = await pool.invoke(served.address, code, NoteHeader(note=note), timeout_ms=5000)
            assert answer.code == answered
            assert first.seen == second.seen == [("before", code, None), ("after", code, answered)]
            first.seen.clear()
            second.seen.clear()
        await pool.send_oneway(served.address, FAIL, timeout_ms=5000)
        await pool.send_oneway(served.address, NOBODY, timeout_ms=5000)
        assert (await pool.invoke(served.address, NOBODY, timeout_ms=5000)).code == 3
        assert first.seen == second.seen == [("before", FAIL, None), ("after", FAIL, 0)]


@on_asyncio
async def test_a_hook_that_fails_after_the_answer_was_made_costs_one_answer_only(caplog):
    class Broken(Noting):
        def after(self, peer: str, request: Command, response: Command) -> None:
            if request.ext_fields.get("note") == "break+":
                raise KeyError("a bug of the hook")

    async with serving(hooks=(Broken(),)) as served, pooling() as pool:
        answer = await pool.invoke(served.address, ECHO, NoteHeader(note="break"), timeout_ms=5000)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "KeyError" not in str(answer.remark)
        assert (await pool.invoke(served.address, ECHO, timeout_ms=5000)).code == 0
        assert [r for r in caplog.records if r.exc_info]


def test_a_full_lane_refuses_before_its_handler_is_asked():
    """What a handler did before it waits, a put perhaps, must not be answered with busy."""

    def never(call: Any, ask: NoteHeader) -> Reply:
        raise AssertionError

    class Here:
        peer = "here"

    lanes = Lanes(1)
    lanes.enter("one")
    dispatcher = Dispatcher({PARK: Route(never, NoteHeader, OPEN, "one")}, lanes)
    call: Any = type("Call", (), {"command": Command(code=PARK), "link": Here(), "received_ms": 0})
    reply = dispatcher.answer(call())
    assert isinstance(reply, Reply)
    assert reply.code == ResponseCode.SYSTEM_BUSY
    assert "one lane, its limit; try later" in str(reply.remark)
