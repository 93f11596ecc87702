"""Requests of one code in one read may be answered jointly: nobody can tell from the answers."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.flags import CommandFlag
from cometmq.protocol.frame import encode_frame
from cometmq.protocol.headers.base import write_fields
from cometmq.remoting.access import OPEN
from cometmq.remoting.dispatch import Reply, Route
from cometmq.remoting.lanes import LaneLimit, Lanes
from cometmq.remoting.promise import Promise
from remoting.rig import ECHO, NOTE, PARK, NoteHeader, echo, on_both, raw_peer, serving, until

ODD = "odd"  # a note that is left to the plain handler


class Joint:
    """Notes who was answered how."""

    def __init__(self, promises: bool = False) -> None:
        self.alone: list[int] = []
        self.jointly: list[list[int]] = []
        self.made: list[Promise[list[Reply]]] = []
        self._promises = promises
        self.routes = {
            NOTE: Route(self.one, NoteHeader, OPEN, "send", jointly=self.many),
            ECHO: Route(echo, NoteHeader, OPEN),
        }

    def one(self, call: Any, ask: NoteHeader) -> Reply:
        self.alone.append(call.command.opaque)
        if ask.note == ODD:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, "odd")
        return Reply(header=ask)

    def many(self, calls: Sequence[Any], asks: Sequence[NoteHeader]) -> Any:
        assert len(calls) > 1
        if any(ask.note == ODD for ask in asks):
            return None
        self.jointly.append([call.command.opaque for call in calls])
        if asks[0].note == "bug":
            raise RuntimeError("a bug of ours")
        if self._promises:
            self.made.append(Promise())
            return self.made[-1]
        return [Reply(header=ask) for ask in asks]


def request(opaque: int, code: int = NOTE, flag: int = 0, **fields: str) -> bytes:
    return encode_frame(Command(code=code, opaque=opaque, flag=flag, fields=write_fields(fields)))


@on_both
async def test_neighbours_of_one_code_are_answered_together_and_in_order():
    joint = Joint()
    async with serving(joint.routes) as served, raw_peer(served.port) as peer:
        await until(lambda: served.channels)
        codes = [NOTE, NOTE, NOTE, ECHO, NOTE, ECHO, NOTE, NOTE]
        read = b"".join(request(n, code, note=f"n{n}") for n, code in enumerate(codes))
        served.channels[0].data_received(read)
        for number in range(len(codes)):
            answer = await peer.command()
            assert answer is not None
            assert (answer.opaque, answer.code) == (number, 0)
            assert answer.ext_fields["note"] == f"n{number}"
        assert joint.jointly == [[0, 1, 2], [6, 7]]
        assert joint.alone == [4]


@on_both
async def test_unusual_requests_are_answered_one_by_one():
    joint = Joint()
    async with serving(joint.routes) as served, raw_peer(served.port) as peer:
        await until(lambda: served.channels)
        fields = [{"note": "a"}, {"note": ODD}, {"number": "x"}, {"note": "b"}]
        read = b"".join(request(n, **each) for n, each in enumerate(fields))
        served.channels[0].data_received(read + request(4, ECHO) + request(5) + request(6))
        answers = [await peer.command() for _ in range(7)]
        assert [answer.opaque for answer in answers if answer] == list(range(7))
        codes = [answer.code for answer in answers if answer]
        assert codes == [0, int(ResponseCode.MESSAGE_ILLEGAL), 1, 0, 0, 0, 0]
        assert joint.alone == [0, 1, 3], "each once, and the one with a bad header not at all"
        assert joint.jointly == [[5, 6]]


@on_both
async def test_answers_to_us_and_requests_that_want_none_among_them():
    joint = Joint()
    async with serving(joint.routes) as served, raw_peer(served.port) as peer:
        await until(lambda: served.channels)
        channel = served.channels[0]
        asking = asyncio.ensure_future(channel.invoke(PARK, timeout_ms=60_000))
        asked = await peer.command()
        assert asked is not None
        ours = encode_frame(Command(code=NOTE, opaque=asked.opaque, flag=1, body=b"ours"))
        oneway = request(2, flag=int(CommandFlag.ONEWAY))
        channel.data_received(request(0) + request(1) + oneway + ours + request(3) + request(4))
        assert (await asking).body == b"ours"
        answers = [await peer.command() for _ in range(4)]
        assert [answer.opaque for answer in answers if answer] == [0, 1, 3, 4]
        assert joint.jointly == [[0, 1, 2], [3, 4]]


@on_both
async def test_one_promise_of_all_answers():
    joint = Joint(promises=True)
    async with serving(joint.routes) as served, raw_peer(served.port) as peer:
        await until(lambda: served.channels)
        served.channels[0].data_received(request(0) + request(1) + request(2))
        assert served.lanes.in_flight("send") == 3
        joint.made[0].keep([Reply(body=b"%d" % number) for number in range(3)])
        assert served.lanes.in_flight("send") == 0
        for number in range(3):
            answer = await peer.command()
            assert answer is not None
            assert (answer.opaque, answer.body) == (number, b"%d" % number)


@on_both
async def test_a_promise_that_outlives_its_connection():
    joint = Joint(promises=True)
    async with serving(joint.routes) as served:
        async with raw_peer(served.port) as peer:
            await peer.send(request(0) + request(1))
            await until(lambda: joint.made)
        await until(lambda: not served.channels)
        joint.made[0].keep([Reply(), Reply()])
        assert served.lanes.in_flight("send") == 0


@on_both
async def test_more_than_a_lane_takes_are_looked_at_one_by_one():
    joint = Joint(promises=True)
    lanes = Lanes(10, {"send": LaneLimit(3, "sends")})
    async with serving(joint.routes, lanes=lanes) as served, raw_peer(served.port) as peer:
        await until(lambda: served.channels)
        channel = served.channels[0]
        channel.data_received(b"".join(request(n) for n in range(4)))
        assert joint.alone == [0, 1, 2, 3]
        channel.data_received(b"".join(request(n) for n in range(4, 7)))
        assert joint.jointly == [[4, 5, 6]]
        channel.data_received(request(7) + request(8))
        joint.made[0].keep([Reply(), Reply(), Reply()])
        answers = [await peer.command() for _ in range(9)]
        codes = {answer.opaque: answer.code for answer in answers if answer}
        busy = int(ResponseCode.SYSTEM_BUSY)
        assert codes == dict.fromkeys(range(7), 0) | {7: busy, 8: busy}


@on_both
async def test_a_bug_in_a_joint_handler_answers_every_request(caplog: pytest.LogCaptureFixture):
    joint = Joint()
    async with serving(joint.routes) as served, raw_peer(served.port) as peer:
        await until(lambda: served.channels)
        served.channels[0].data_received(request(0, note="bug") + request(1))
        for number in range(2):
            answer = await peer.command()
            assert answer is not None
            assert (answer.opaque, answer.code) == (number, int(ResponseCode.SYSTEM_ERROR))
        assert "a bug of ours" in caplog.text
