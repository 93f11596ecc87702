"""A request and its answer, both ways, many at a time, late, or never."""

import asyncio
from typing import Any

import pytest

from cometmq.errors import TimedOut, TooLarge, TooManyRequests, Unreachable
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.command import Codec, Command
from cometmq.protocol.frame import encode_frame
from cometmq.protocol.headers.base import read_header, write_fields, write_header
from cometmq.protocol.limits import FRAME_SIZE_MAX
from cometmq.remoting.access import OPEN
from cometmq.remoting.dispatch import Reply, Route
from cometmq.remoting.limits import Limits
from cometmq.testing.clock import ManualClock
from remoting.rig import (
    ECHO,
    NOTE,
    PARK,
    NoteHeader,
    is_response,
    on_asyncio,
    on_both,
    pooling,
    raw_peer,
    serving,
    until,
)


class Parking:
    """Answers each request when the test says so."""

    def __init__(self) -> None:
        self.parked: dict[int, asyncio.Future[Reply]] = {}

    async def park(self, call: Any, ask: NoteHeader) -> Reply:
        future = self.parked[ask.number] = asyncio.get_running_loop().create_future()
        return await future

    @property
    def routes(self) -> dict[int, Route]:
        return {PARK: Route(self.park, NoteHeader, OPEN, "park")}


@on_both
async def test_an_answer_carries_header_body_code_and_opaque():
    async with serving() as served, pooling() as pool:
        channel = await pool.connection(served.address)
        for number in range(3):
            header = NoteHeader(note="héllo\n", number=number)
            response = await channel.invoke(ECHO, header, b"\0body", timeout_ms=5000)
            assert (response.code, response.body) == (0, b"\0body")
            assert is_response(response)
            assert read_header(response, NoteHeader) == header
        assert len(channel._calls) == 0


@on_both
async def test_many_in_flight_are_answered_in_any_order():
    parking = Parking()
    async with serving(parking.routes) as served, pooling() as pool:
        calls = [
            asyncio.ensure_future(
                pool.invoke(served.address, PARK, NoteHeader(number=n), timeout_ms=20_000)
            )
            for n in range(500)
        ]
        await until(lambda: len(parking.parked) == 500)
        assert served.lanes.in_flight("park") == 500
        for number in sorted(parking.parked, key=lambda n: n * 7919 % 500):
            parking.parked[number].set_result(Reply(body=b"%d" % number))
        answers = await asyncio.gather(*calls)
        assert [int(answer.body) for answer in answers] == list(range(500))
        assert served.lanes.in_flight("park") == 0


@on_both
async def test_a_large_body_crosses_whole():
    body = bytes(range(256)) * (48 << 10)  # 12 MiB
    async with serving() as served, pooling() as pool:
        response = await pool.invoke(served.address, ECHO, None, body, timeout_ms=20_000)
        assert response.body == body


@on_asyncio
async def test_a_request_or_an_answer_over_the_limit_is_no_silence():
    def huge(call: Any, ask: NoteHeader) -> Reply:
        return Reply(body=bytes(FRAME_SIZE_MAX))

    async with serving({NOTE: Route(huge, NoteHeader, OPEN)}) as served, pooling() as pool:
        channel = await pool.connection(served.address)
        with pytest.raises(TooLarge):
            await channel.invoke(NOTE, None, bytes(FRAME_SIZE_MAX), timeout_ms=5000)
        response = await channel.invoke(NOTE, timeout_ms=5000)
        assert response.code == ResponseCode.SYSTEM_ERROR
        assert response.remark
        assert len(channel._calls) == 0


@on_both
async def test_a_oneway_request_gets_no_answer():
    seen: asyncio.Queue[str] = asyncio.Queue()

    def note(call: Any, ask: NoteHeader) -> Reply:
        seen.put_nowait(ask.note)
        return Reply(body=b"never sent")

    async with serving({NOTE: Route(note, NoteHeader, OPEN)}) as served:
        async with pooling() as pool:
            await pool.send_oneway(served.address, NOTE, NoteHeader(note="x"), timeout_ms=5000)
            assert await seen.get() == "x"
        async with raw_peer(served.port) as peer:
            oneway = Command(code=NOTE, flag=2, opaque=1)
            unknown = Command(code=999, flag=2, opaque=2)
            asked = Command(code=NOTE, opaque=3)
            await peer.send(b"".join(map(encode_frame, (oneway, unknown, asked))))
            answer = await peer.command()
            assert answer is not None
            assert answer.opaque == 3  # the first bytes that came back


@on_both
async def test_the_server_asks_and_tells_the_client_over_the_same_connection():
    told: list[str] = []

    async def ask_back(call: Any, ask: NoteHeader) -> Reply:
        await call.link.send_oneway(NOTE, NoteHeader(note="told"), timeout_ms=5000)
        answer = await call.link.invoke(ECHO, ask, b"from the server", timeout_ms=5000)
        return Reply(body=answer.body + b"/" + str(call.link.peer).encode())

    def note(call: Any, ask: NoteHeader) -> Reply:
        told.append(ask.note)
        return Reply()

    def answer_back(call: Any, ask: NoteHeader) -> Reply:
        return Reply(body=b"%b %d" % (call.command.body, ask.number))

    client_routes = {
        NOTE: Route(note, NoteHeader, OPEN),
        ECHO: Route(answer_back, NoteHeader, OPEN),
    }
    async with (
        serving({PARK: Route(ask_back, NoteHeader, OPEN)}) as served,
        pooling(client_routes) as pool,
    ):
        answers = await asyncio.gather(
            *(
                pool.invoke(served.address, PARK, NoteHeader(number=n), timeout_ms=5000)
                for n in range(10)
            )
        )
        peer = served.channels[0].peer
        for number, answer in enumerate(answers):
            assert answer.body == b"from the server %d/%b" % (number, str(peer).encode())
        assert told == ["told"] * 10
        assert len(served.channels) == 1


@on_asyncio
async def test_a_timeout_names_peer_request_and_duration():
    clock, parking = ManualClock(), Parking()
    async with serving(parking.routes) as served, pooling(clock=clock) as pool:
        channel = await pool.connection(served.address)
        call = asyncio.ensure_future(channel.invoke(PARK, timeout_ms=3000))
        await until(lambda: parking.parked)
        await clock.advance(2999)
        assert not call.done()
        assert len(channel._calls) == 1
        await clock.advance(51)
        with pytest.raises(TimedOut) as caught:
            await call
        for word in (served.address, str(PARK), "3000 ms"):
            assert word in str(caught.value)
        assert len(channel._calls) == 0
        # The answer that comes after all is dropped, and the connection is as good as before.
        parking.parked.pop(0).set_result(Reply(body=b"late"))
        call = asyncio.ensure_future(channel.invoke(PARK, timeout_ms=3000))
        await until(lambda: parking.parked)
        parking.parked[0].set_result(Reply(body=b"in time"))
        assert (await call).body == b"in time"


@on_asyncio
async def test_a_caller_that_gives_up_leaves_nothing_behind():
    parking = Parking()
    async with serving(parking.routes) as served, pooling() as pool:
        channel = await pool.connection(served.address)
        call = asyncio.ensure_future(channel.invoke(PARK, timeout_ms=60_000))
        await until(lambda: parking.parked)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert len(channel._calls) == 0
        assert channel.is_open


@on_both
async def test_a_broken_connection_fails_all_waiting_callers():
    parking = Parking()
    async with serving(parking.routes) as served, pooling() as pool:
        channel = await pool.connection(served.address)
        calls = [
            asyncio.ensure_future(channel.invoke(PARK, NoteHeader(number=n), timeout_ms=60_000))
            for n in range(20)
        ]
        await until(lambda: len(parking.parked) == 20)
        served.channels[0].close()
        errors = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(error, Unreachable) for error in errors)
        assert len({id(error) for error in errors}) == 20, "one exception raised in many places"
        assert served.address in str(errors[0])
        assert len(channel._calls) == 0
        with pytest.raises(Unreachable):
            await channel.invoke(PARK, timeout_ms=1000)


@on_asyncio
async def test_requests_in_flight_are_bounded():
    parking = Parking()
    limits = Limits(async_max=3)
    async with serving(parking.routes) as served, pooling(limits=limits) as pool:
        calls = [
            asyncio.ensure_future(
                pool.invoke(served.address, PARK, NoteHeader(number=n), timeout_ms=60_000)
            )
            for n in range(3)
        ]
        await until(lambda: len(parking.parked) == 3)
        with pytest.raises(TooManyRequests):
            await pool.invoke(served.address, PARK, NoteHeader(number=3), timeout_ms=20)
        waiting = asyncio.ensure_future(
            pool.invoke(served.address, PARK, NoteHeader(number=4), timeout_ms=60_000)
        )
        parking.parked[0].set_result(Reply())
        await until(lambda: 4 in parking.parked)  # it had the place of the one that ended
        assert 3 not in parking.parked
        for future in parking.parked.values():
            if not future.done():
                future.set_result(Reply())
        await asyncio.gather(waiting, *calls)


@on_asyncio
async def test_the_wait_for_a_permit_is_part_of_the_timeout():
    clock, parking = ManualClock(), Parking()
    async with (
        serving(parking.routes) as served,
        pooling(clock=clock, limits=Limits(async_max=1)) as pool,
    ):
        channel = await pool.connection(served.address)
        first = asyncio.ensure_future(channel.invoke(PARK, timeout_ms=60_000))
        await until(lambda: parking.parked)
        second = asyncio.ensure_future(
            channel.invoke(PARK, NoteHeader(number=2), timeout_ms=30_000)
        )
        await clock.advance(20_000)
        parking.parked[0].set_result(Reply())
        await first
        await until(lambda: 2 in parking.parked)
        await clock.advance(9_900)
        assert not second.done()
        await clock.advance(200)
        with pytest.raises(TimedOut):
            await second


@on_asyncio
async def test_oneway_requests_wait_for_a_peer_that_does_not_read_and_are_bounded():
    async def deaf(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)

    writers: list[asyncio.StreamWriter] = []
    listener = await asyncio.start_server(deaf, "127.0.0.1", 0, limit=1024)
    address = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    limits = Limits(oneway_max=2, write_high_water=64 << 10)
    async with pooling(limits=limits) as pool:
        channel = await pool.connection(address)
        await until(lambda: writers)
        while channel._writable.is_set():
            await pool.send_oneway(address, NOTE, None, bytes(1 << 20), timeout_ms=5000)
            await asyncio.sleep(0)
        stuck = [
            asyncio.ensure_future(pool.send_oneway(address, NOTE, timeout_ms=60_000))
            for _ in range(2)
        ]
        await until(lambda: channel._endpoint.oneway_permits.locked())
        with pytest.raises(TooManyRequests):
            await pool.send_oneway(address, NOTE, timeout_ms=20)
        writers[0].transport.abort()
        errors = await asyncio.gather(*stuck, return_exceptions=True)
        assert all(isinstance(error, Unreachable) for error in errors)
    listener.close()
    await listener.wait_closed()


@on_asyncio
@pytest.mark.parametrize("codec", list(Codec))
async def test_an_answer_is_written_as_its_request_was(codec):
    async with serving() as served, raw_peer(served.port) as peer:
        for code in (ECHO, 999):
            request = Command(
                code=code, opaque=7, codec=codec, fields=write_header(NoteHeader(note="n"))
            )
            await peer.send(encode_frame(request))
            answer = await peer.command()
            assert answer is not None
            assert (answer.codec, answer.opaque) == (codec, 7)


@on_asyncio
async def test_the_answers_to_one_read_leave_in_one_write():
    unhurried = Limits(turn_ms=60_000)  # however busy the machine is, this is one turn
    async with serving(limits=unhurried) as served, raw_peer(served.port) as peer:
        await peer.send(encode_frame(Command(code=ECHO)))
        await peer.command()
        channel = served.channels[0]
        transport, written = channel._transport, []
        channel._transport = Spy(transport, written)
        frames = [encode_frame(Command(code=ECHO, opaque=n, body=b"b")) for n in range(50)]
        await peer.send(b"".join(frames))
        answers = [await peer.command() for _ in range(50)]
        assert [answer.opaque for answer in answers] == list(range(50))
        assert len(written) == 1
        channel._transport = transport


@on_asyncio
async def test_requests_of_one_turn_leave_in_one_write():
    async with serving() as served, pooling() as pool:
        channel = await pool.connection(served.address)
        transport, written = channel._transport, []
        channel._transport = Spy(transport, written)
        await asyncio.gather(*(channel.invoke(ECHO, timeout_ms=5000) for _ in range(50)))
        assert len(written) == 1
        channel._transport = transport


class Spy:
    """A transport that notes what is written."""

    def __init__(self, transport: Any, written: list[bytes]) -> None:
        self._transport = transport
        self._written = written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        self._written.append(data)
        self._transport.write(data)

    def writelines(self, parts: list[bytes]) -> None:
        self.write(b"".join(parts))


@on_asyncio
async def test_a_frame_in_pieces_is_the_same_frame():
    frame = encode_frame(
        Command(code=ECHO, opaque=5, fields=write_fields({"note": "x"}), body=b"body" * 10)
    )
    async with serving() as served, raw_peer(served.port) as peer:
        for cut in range(1, len(frame), 7):
            await peer.send(frame[:cut])
            await asyncio.sleep(0)
            await peer.send(frame[cut:])
            answer = await peer.command()
            assert answer is not None
            assert (answer.opaque, answer.body) == (5, b"body" * 10)
