"""The dispatcher enforces the policy of a row, in a fixed order, also for joint requests."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from cometmq.errors import Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.frame import encode_frame
from cometmq.protocol.headers.base import Header, write_fields
from cometmq.remoting.access import (
    ADMIN,
    CONSUME,
    OPEN,
    PUBLISH,
    UNRESTRICTED,
    AccessRule,
    Action,
    Need,
    Resource,
)
from cometmq.remoting.dispatch import Call, Dispatcher, Replies, Reply, Role, Route
from cometmq.remoting.lanes import Lanes
from remoting.rig import on_both, raw_peer, serving, until

SEND, READ, LIST, CHANGE, UNKNOWN = 310, 11, 105, 25, 999
SLAVE_REFUSES = Reply(14, remark="messages are put to the slave")


class TopicAndGroupHeader(Header):
    """A topic that must be there, a group, and the account of the caller."""

    topic: str
    consumer_group: str | None = None
    account: str | None = None


class Account:
    """May do what it was given."""

    def __init__(self, name: str, *allowed: Need) -> None:
        self.name, self.allowed = name, allowed

    def require(self, need: Need) -> None:
        if need not in self.allowed:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"no {need.action.value} for {self.name}")


def topic(name: str, action: Action = Action.PUB) -> Need:
    return Need(action, Resource.TOPIC, name)


class Accounts:
    """A guard that knows accounts by name and notes what it was asked."""

    def __init__(self, *accounts: Account) -> None:
        self._accounts = {account.name: account for account in accounts}
        self.identified: list[int] = []
        self.checked: list[tuple[int, list[Need]]] = []

    def identify(self, call: Call) -> Account:
        self.identified.append(call.command.opaque)
        name = call.command.ext_fields.get("account", "")
        if name not in self._accounts:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"no account {name}")
        return self._accounts[name]

    def check(self, principal: Any, code: int, needs: Iterable[Need]) -> None:
        wanted = list(needs)
        self.checked.append((code, wanted))
        for need in wanted:
            principal.require(need)


class Table:
    """Rows with every kind of policy; notes whom they answered."""

    def __init__(self) -> None:
        self.alone: list[int] = []
        self.jointly: list[list[int]] = []
        self.principals: list[Any] = []
        shape = TopicAndGroupHeader
        self.routes = {
            SEND: Route(
                self.one,
                shape,
                PUBLISH,
                "send",
                writes=True,
                on_slave=SLAVE_REFUSES,
                jointly=self.many,
            ),
            READ: Route(self.one, shape, CONSUME, "pull"),
            LIST: Route(self.one, shape, OPEN),
            CHANGE: Route(self.one, shape, ADMIN, "full"),
        }

    def one(self, call: Call, ask: Any) -> Reply:
        self.alone.append(call.command.opaque)
        self.principals.append(call.principal)
        return Reply(header=ask)

    def many(self, calls: Sequence[Call], asks: Sequence[Any]) -> Any:
        if any(ask.topic == "odd" for ask in asks):
            return None
        self.jointly.append([call.command.opaque for call in calls])
        self.principals += [call.principal for call in calls]
        assert [call.command.ext_fields["topic"] for call in calls] == [ask.topic for ask in asks]
        return Replies(0, [write_fields({"topic": ask.topic}) for ask in asks])


class Here:
    peer = "here"


def command(code: int, opaque: int = 0, **fields: str) -> Command:
    return Command(code=code, opaque=opaque, fields=write_fields(fields))


def answer(dispatcher: Dispatcher, request: Command) -> Reply:
    here: Any = Here()
    outcome = dispatcher.answer(Call(request, here, 0))
    assert isinstance(outcome, Reply)
    return outcome


WRITER = Account("writer", topic("T"), topic("odd"))
READER = Account("reader", topic("T", Action.SUB), Need(Action.SUB, Resource.GROUP, "G"))
ROOT = Account("root", Need(Action.ADMIN))


def test_a_server_without_a_guard_admits_everybody():
    table = Table()
    dispatcher = Dispatcher(table.routes, Lanes(10))
    for code in table.routes:
        assert answer(dispatcher, command(code, topic="T")).code == 0
    assert table.principals == [UNRESTRICTED] * len(table.routes)


@pytest.mark.parametrize(
    ("account", "code", "fields", "admitted"),
    [
        ("writer", SEND, {"topic": "T"}, True),
        ("writer", SEND, {"topic": "U"}, False),
        ("reader", SEND, {"topic": "T"}, False),
        ("reader", READ, {"topic": "T", "consumerGroup": "G"}, True),
        ("reader", READ, {"topic": "T", "consumerGroup": "H"}, False),
        ("reader", READ, {"topic": "U", "consumerGroup": "G"}, False),
        ("reader", READ, {"topic": "T"}, True),  # a group that is not named is not needed
        ("root", CHANGE, {"topic": "T"}, True),
        ("writer", CHANGE, {"topic": "T"}, False),
        ("nobody", LIST, {"topic": "T"}, True),
        ("nobody", SEND, {"topic": "T"}, False),
    ],
)
def test_a_request_needs_what_its_row_says(account, code, fields, admitted):
    table, guard = Table(), Accounts(WRITER, READER, ROOT)
    dispatcher = Dispatcher(table.routes, Lanes(10), guard=guard)
    reply = answer(dispatcher, command(code, account=account, **fields))
    assert (reply.code, bool(reply.remark)) == ((0, False) if admitted else (1, True))
    assert table.alone == ([0] if admitted else [])
    assert len(guard.identified) == (0 if code == LIST else 1)
    if admitted and code != LIST:
        assert [each.name for each in table.principals] == [account]


def test_the_order_of_the_checks():
    """Each of them refuses a request that all later ones would refuse, too."""
    table, guard, role = Table(), Accounts(WRITER, ROOT), Role(is_slave=True)
    lanes = Lanes(1)
    for lane in ("send", "full"):
        lanes.enter(lane)
    dispatcher = Dispatcher(table.routes, lanes, guard=guard, role=role)

    def refused(request: Command) -> tuple[int, str]:
        reply = answer(dispatcher, request)
        return reply.code, str(reply.remark)

    unknown = refused(command(UNKNOWN, account="nobody"))
    assert unknown == (1, "no account nobody"), "authenticated before the code is looked up"
    assert refused(command(UNKNOWN, account="writer"))[0] == 3
    assert refused(command(SEND, account="writer")) == (14, SLAVE_REFUSES.remark)
    role.is_slave = False
    assert "topic" in refused(command(SEND, account="writer"))[1], "its header has no topic"
    assert refused(command(SEND, account="writer", topic="U")) == (1, "no PUB for writer")
    assert refused(command(SEND, account="writer", topic="T"))[0] == ResponseCode.SYSTEM_BUSY
    assert refused(command(CHANGE, account="root", topic="T"))[0] == ResponseCode.SYSTEM_BUSY
    assert not table.alone


def test_nothing_is_read_before_the_peer_is_authenticated():
    def read(body: bytes) -> Iterable[Need]:
        raise AssertionError

    table = Table()
    row = Route(table.one, TopicAndGroupHeader, AccessRule(body=read))
    dispatcher = Dispatcher({SEND: row}, Lanes(10), guard=Accounts())
    reply = answer(dispatcher, command(SEND, account="nobody"))
    assert (reply.code, reply.remark) == (1, "no account nobody")


def test_a_role_may_change():
    table, role = Table(), Role()
    dispatcher = Dispatcher(table.routes, Lanes(10), role=role)
    request = command(SEND, topic="T")
    assert answer(dispatcher, request).code == 0
    role.is_slave = True
    assert answer(dispatcher, request) == SLAVE_REFUSES
    assert answer(dispatcher, command(READ, topic="T")).code == 0


async def run_of(table: Table, requests: list[Command], **policy: Any) -> list[Command]:
    """The responses to requests of one read, by opaque."""
    async with serving(table.routes, **policy) as served, raw_peer(served.port) as peer:
        await until(lambda: served.channels)
        served.channels[0].data_received(b"".join(map(encode_frame, requests)))
        found = [await peer.command() for _ in requests]
        return sorted([each for each in found if each], key=lambda each: each.opaque)


def sends(*topics: str, account: str = "writer") -> list[Command]:
    return [command(SEND, n, topic=name, account=account) for n, name in enumerate(topics)]


@on_both
async def test_a_guard_leaves_joint_requests_joint():
    table, guard = Table(), Accounts(WRITER)
    answers = await run_of(table, sends("T", "T", "T"), guard=guard)
    assert [each.code for each in answers] == [0, 0, 0]
    assert table.jointly == [[0, 1, 2]]
    assert table.alone == []
    assert guard.identified == [0, 1, 2]
    assert guard.checked == [(SEND, [topic("T")])] * 3
    assert table.principals == [WRITER] * 3


@on_both
async def test_a_guard_refuses_single_requests_of_a_joint_run():
    table, guard = Table(), Accounts(WRITER)
    requests = [
        *sends("T", "U", "T"),
        command(SEND, 3, topic="T", account="nobody"),
        command(SEND, 4, account="writer"),
    ]
    answers = await run_of(table, requests, guard=guard)
    assert [each.code for each in answers] == [0, 1, 0, 1, 1]
    assert [each.remark for each in answers][1] == "no PUB for writer"
    assert [each.remark for each in answers][3] == "no account nobody"
    assert table.alone == [0, 2]
    assert guard.identified == [0, 1, 2, 3, 4], "each once"
    assert table.principals == [WRITER, WRITER]


@on_both
async def test_a_run_that_its_handler_leaves_alone_is_checked_once():
    table, guard = Table(), Accounts(WRITER)
    answers = await run_of(table, sends("T", "odd", "T"), guard=guard)
    assert [each.code for each in answers] == [0, 0, 0]
    assert table.alone == [0, 1, 2]
    assert guard.identified == [0, 1, 2]


@on_both
async def test_a_slave_refuses_each_request_of_a_joint_run():
    table = Table()
    answers = await run_of(table, sends("T", "T", "T"), role=Role(is_slave=True))
    assert [(each.code, each.remark) for each in answers] == [(14, SLAVE_REFUSES.remark)] * 3
    assert (table.alone, table.jointly) == ([], [])


class Noting:
    """A hook that notes, refuses one topic and fails after another."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.shown: list[str] = []

    def before(self, peer: str, request: Command) -> None:
        self.seen.append(("before", request.opaque))
        if request.ext_fields["topic"] == "no":
            raise Refused(ResponseCode.NO_PERMISSION, "the hook says no")

    def after(self, peer: str, request: Command, response: Command) -> None:
        self.seen.append(("after", request.opaque))
        self.shown.append(response.ext_fields.get("topic", ""))


@on_both
@pytest.mark.parametrize("topics", [("T", "U", "V"), ("T", "no", "V"), ("T", "odd", "V")])
async def test_hooks_see_each_request_of_a_joint_run_once(topics):
    table, hook = Table(), Noting()
    answers = await run_of(table, sends(*topics), hooks=(hook,))
    assert table.jointly == ([[0, 1, 2]] if topics[1] == "U" else [])
    assert [each.code for each in answers] == [0, 16 if topics[1] == "no" else 0, 0]
    assert sorted(hook.seen) == [(when, n) for when in ("after", "before") for n in range(3)]
    assert hook.shown == ["" if name == "no" else name for name in topics]
    for given, name in zip(answers, topics, strict=True):
        assert given.ext_fields.get("topic") == (None if name == "no" else name)
