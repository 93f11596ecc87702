"""From a request to its reply: one table of codes, one place where an exception becomes a code.

A row of the table has the handler of a code and its policy: who may ask, whether a slave answers,
on which ports, in which lane. `Dispatcher` enforces the policy, so a handler has none. In this
order: hooks, authentication, is the code known, role, permission, lane, handler. A request that
is answered together with others passes the same checks.
"""

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, Protocol, cast

import msgspec

from cometmq.errors import BadHeader, PeerError, Refused, WorldError
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.command import Command, response_to
from cometmq.protocol.headers.base import (
    Header,
    WrittenHeader,
    read_header,
    read_headers,
    write_header,
)
from cometmq.protocol.records.hosts import Host
from cometmq.remoting.access import UNRESTRICTED, AccessRule, Need, Principal
from cometmq.remoting.lanes import Lanes
from cometmq.remoting.promise import Promise

log = logging.getLogger(__name__)


class Link(Protocol):
    """A connection as handlers see it: a handler may send requests to the peer."""

    peer: Host

    async def invoke(
        self, code: int, header: Header | None = None, body: bytes = b"", *, timeout_ms: int
    ) -> Command:
        """Send a request and return the response of the peer."""

    async def send_oneway(
        self, code: int, header: Header | None = None, body: bytes = b"", *, timeout_ms: int
    ) -> None:
        """Send a request that has no response."""

    def close(self) -> None:
        """Send all written bytes, then close."""


class Reply(msgspec.Struct, frozen=True):
    """What a handler answers."""

    code: int = ResponseCode.SUCCESS.value
    header: Header | None = None
    body: bytes = b""
    remark: str | None = None


class Admitted(msgspec.Struct, frozen=True):
    """A request that may be answered: whose it is, and its header, which is read once."""

    principal: Principal
    ask: Header


class Call(msgspec.Struct):
    """One request as its handler sees it."""

    command: Command
    link: Link
    received_ms: int  # wall time; one reading for all requests of one read
    # The result of the checks of a dispatcher with a guard or hooks. A request is checked once,
    # also if it is answered alone after its joint run was given up.
    admission: Admitted | Reply | None = None

    @property
    def principal(self) -> Principal:
        """The account that a handler asks for permissions which only the store can tell."""
        return self.admission.principal if type(self.admission) is Admitted else UNRESTRICTED


FAILED = Reply(ResponseCode.SYSTEM_ERROR.value, remark="the server failed; see its log")

Outcome = Reply | Promise[Reply] | Awaitable[Reply]
Handler = Callable[[Call, Any], Outcome]


class Replies(msgspec.Struct, frozen=True):
    """The replies to several requests: one code, a short encoded header for each, no body."""

    code: int
    fields: Sequence[bytes]  # one encoded header per request

    def each(self) -> list[Reply]:
        """The same replies, one by one."""
        return [Reply(self.code, WrittenHeader(fields=fields)) for fields in self.fields]


# All replies, or one promise of them. None: nothing was done, each request is to be answered alone.
Jointly = Replies | list[Reply]
JointOutcome = Jointly | Promise[Jointly] | None
JointHandler = Callable[[Sequence[Call], Sequence[Any]], JointOutcome]


@dataclass(frozen=True, slots=True)
class Route:
    """One row of a server's table.

    A handler that does not wait is a plain function. A handler whose requests wait in thousands is
    a plain function that returns a promise.
    """

    handler: Handler
    header: type[Header]
    access: AccessRule
    lane: str = "admin"  # whose limit of requests in flight it counts against
    _: KW_ONLY
    writes: bool = False  # changes the log, a table or the settings, and not only what is counted
    on_slave: Reply | None = None  # what a slave answers; None: as a master does
    vip_port: bool = True  # also answered on the second port
    # Answers several requests of one read as `handler` would, at lower cost, or returns None.
    jointly: JointHandler | None = None


Routes = Mapping[int, Route]


def vip_routes(routes: Routes) -> Routes:
    """The rows that are also answered on the second port."""
    return {code: route for code, route in routes.items() if route.vip_port}


class Role:
    """Whether a server is a slave. The ports of a server share one, as it may change."""

    __slots__ = ("is_slave",)

    def __init__(self, *, is_slave: bool = False) -> None:
        self.is_slave = is_slave


class Hook(Protocol):
    """Observes every call of one side, sent or received; `before` may sign or refuse it.

    For a received call that has a route, each hook is called once before and once after, also if
    another hook refuses the call. Only if the connection breaks first, `after` is not called.
    """

    def before(self, peer: str, request: Command) -> None:
        """A request is about to be sent, or to be answered."""

    def after(self, peer: str, request: Command, response: Command) -> None:
        """A response has arrived, or is about to be sent."""


class Guard(Protocol):
    """Decides which requests are admitted. Each request is shown to it once."""

    def identify(self, call: Call) -> Principal:
        """Authenticate the peer, before its header or body is read. Raises Refused."""

    def check(self, principal: Principal, code: int, needs: Iterable[Need]) -> None:
        """Raise Refused unless the principal has every permission."""


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """Answers requests by a table."""

    routes: Routes
    lanes: Lanes
    hooks: tuple[Hook, ...] = ()
    guard: Guard | None = None
    role: Role = field(default_factory=Role)
    joint_codes: frozenset[int] = field(init=False)  # accepted by `answer_jointly`
    _checks_each: bool = field(init=False)

    def __post_init__(self) -> None:
        codes = [code for code, route in self.routes.items() if route.jointly is not None]
        object.__setattr__(self, "joint_codes", frozenset(codes))
        object.__setattr__(self, "_checks_each", bool(self.hooks or self.guard))

    def answer(self, call: Call) -> Outcome:
        """Return the reply, or a promise or an awaitable of it. None of them raises."""
        command = call.command
        route = self.routes.get(command.code)
        ask: Header | None = None
        if self._checks_each:
            admission = self._admit(call, route)
            if type(admission) is Reply:
                return admission
            ask = cast(Admitted, admission).ask
        elif route is None or self.role.is_slave:
            refusal = self._refusal(command.code, route)
            if refusal is not None:
                return refusal
        assert route is not None
        try:
            if route.lane in self.lanes.full:
                raise self.lanes.refusal(route.lane)
            outcome = route.handler(call, ask or read_header(command, route.header))
            if type(outcome) is Reply:
                return outcome
            self.lanes.enter(route.lane)
        except Exception as error:  # noqa: BLE001 - translated, and logged where it is ours
            return _failure(error, call)
        if type(outcome) is Promise:
            outcome.then(partial(self._leave, route.lane))
            return outcome
        return self._awaited(cast(Awaitable[Reply], outcome), call, route.lane)

    def answer_jointly(self, calls: Sequence[Call]) -> JointOutcome:
        """Answer several calls of one code together, with the same result as `answer` of each.

        Returns None if they must be answered alone, for example because one of them is refused.
        """
        code = calls[0].command.code
        route = self.routes[code]
        assert route.jointly is not None, "of one of the joint codes"
        lane, count = route.lane, len(calls)
        if not self.lanes.has_room(lane, count):
            return None  # some of them may have to be refused
        asks: Sequence[Header] | None
        if self._checks_each:
            asks = self._admit_all(calls, route)
            if asks is None:
                return None
        else:
            if self.role.is_slave and route.on_slave is not None:
                return None
            try:
                asks = read_headers([call.command for call in calls], route.header)
            except BadHeader:
                return None
        try:
            outcome = route.jointly(calls, asks)
        except Exception as error:  # noqa: BLE001 - translated, and logged where it is ours
            return [_failure(error, call) for call in calls]
        if type(outcome) is Promise:
            self.lanes.enter(lane, count)
            outcome.then(lambda _: self.lanes.leave(lane, count))
        return outcome

    def _admit_all(self, calls: Sequence[Call], route: Route) -> list[Header] | None:
        """The headers of all calls; None if one of them is refused."""
        admissions = [self._admit(call, route) for call in calls]
        asks = [each.ask for each in admissions if type(each) is Admitted]
        return asks if len(asks) == len(calls) else None

    def _admit(self, call: Call, route: Route | None) -> Admitted | Reply:
        """Check everything but the lane, once; the reply if the request is refused."""
        if call.admission is None:
            call.admission = self._check(call, route)
        return call.admission

    def _check(self, call: Call, route: Route | None) -> Admitted | Reply:
        command, guard = call.command, self.guard
        try:
            if route is not None:
                self._before(call)
            principal: Principal = UNRESTRICTED
            if guard is not None and not (route is not None and route.access.is_open):
                principal = guard.identify(call)
            refusal = self._refusal(command.code, route)
            if refusal is not None:
                return refusal
            assert route is not None
            ask = read_header(command, route.header)
            if guard is not None and not route.access.is_open:
                guard.check(principal, command.code, route.access.needs(ask, command.body))
        except Exception as error:  # noqa: BLE001 - translated, and logged where it is ours
            return _failure(error, call)
        return Admitted(principal, ask)

    def _refusal(self, code: int, route: Route | None) -> Reply | None:
        """The refusal that follows from the table alone: unknown code, or not on a slave."""
        if route is None:
            return Reply(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED.value,
                remark=f"request type {code} not supported",
            )
        return route.on_slave if self.role.is_slave else None

    def _before(self, call: Call) -> None:
        """Show the request to all hooks, then raise what the first one raised."""
        refusals = []
        for hook in self.hooks:
            try:
                hook.before(str(call.link.peer), call.command)
            except Exception as error:  # noqa: BLE001 - raised below
                refusals.append(error)
        if refusals:
            raise refusals[0]

    def after(self, peer: Host, request: Command, reply: Reply) -> Reply:
        """Show a reply to the hooks before it is sent. Returns FAILED if a hook raises.

        The peer gets a reply even if a hook fails.
        """
        if not self.hooks or request.code not in self.routes:
            return reply
        response = response_to(request, reply.code, write_header(reply.header), reply.remark)
        response.body = reply.body
        final = reply
        for hook in self.hooks:
            try:
                hook.after(str(peer), request, response)
            except Exception:
                log.exception("hook after request %d from %s", request.code, peer)
                final = FAILED
        return final

    def _leave(self, lane: str, _: Reply) -> None:
        self.lanes.leave(lane)

    async def _awaited(self, outcome: Awaitable[Reply], call: Call, lane: str) -> Reply:
        try:
            return await outcome
        except Exception as error:  # noqa: BLE001 - translated, and logged where it is ours
            return _failure(error, call)
        finally:
            self.lanes.leave(lane)


def _failure(error: Exception, call: Call) -> Reply:
    """The only place where an exception becomes a response code."""
    match error:
        case Refused():
            return Reply(error.code, remark=str(error))
        case PeerError() | WorldError():
            return Reply(ResponseCode.SYSTEM_ERROR.value, remark=str(error))
        case OSError():  # of the disk; its full text has our paths
            log.error("request %d: %s", call.command.code, error)
            return Reply(ResponseCode.SYSTEM_ERROR.value, remark=error.strerror)
    log.error("request %d from %s", call.command.code, call.link.peer, exc_info=error)
    return FAILED
