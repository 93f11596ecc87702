"""Sends the same cases to both servers, and collects where they differ."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Protocol, Self

from cometmq.protocol.codes import RequestCode
from compat.differential.outcome import comparable, difference
from compat.differential.requests import NAMES, Case
from compat.differential.wire import Answer, Connection
from compat.differential.world import beat

_AT_ONCE = 16  # cases in flight
_WAIT_S = 2.0  # for an answer that one of the servers may never give
_SECOND_WAIT_S = 12.0  # a busy machine needs longer
_SETTLE_S = 0.2  # between two looks at what a case left behind
_LOOKS_MAX = 2  # the second time a case runs, more
_SECOND_LOOKS_MAX = 10
_BEAT_S = 20
_UNORDERED = {39, 40}  # what brokers ask clients at any time
_CODE = RequestCode
_ANY_VALUES = {  # whose values tell of the machine, the process and the moment
    _CODE.GET_BROKER_RUNTIME_INFO, _CODE.GET_BROKER_CONSUME_STATS, _CODE.VIEW_BROKER_STATS_DATA,
    _CODE.GET_ALL_CONSUMER_OFFSET, _CODE.GET_ALL_TOPIC_CONFIG, _CODE.GET_ALL_PRODUCER_INFO,
    _CODE.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, _CODE.GET_BROKER_CONFIG, _CODE.GET_NAMESRV_CONFIG,
    _CODE.GET_BROKER_CLUSTER_INFO, _CODE.GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    _CODE.GET_SYSTEM_TOPIC_LIST_FROM_NS, _CODE.GET_ALL_DELAY_OFFSET,
}  # fmt: skip


class World(Protocol):
    """What cases need on a server, and what they change there."""

    reads: frozenset[int]  # codes that change nothing: their cases share the case number 0

    async def furnish(self, link: Connection, number: int, code: int) -> dict[str, str]:
        """Make what a case needs."""

    async def state(self, link: Connection, number: int) -> Any:
        """What a case may have changed, while it is connected."""

    async def left_behind(self, links: tuple[Connection, Connection]) -> dict[int, list[str]]:
        """Differences that are read after all cases."""


@dataclass(frozen=True)
class Difference:
    """A case that the two servers treat differently."""

    case: Case
    lines: list[str]
    answers: tuple[Answer, Answer]  # Apache's and ours

    def __str__(self) -> str:
        remarks = " / ".join(f"{each.kind} {each.code} {each.remark}" for each in self.answers)
        return "\n    ".join([str(self.case), *self.lines, remarks[:300].replace("\n", " ")])


class Runner:
    """Runs cases on a pair of servers."""

    def __init__(self, world: World, apache_port: int, our_port: int) -> None:
        self._world = world
        self._ports = (apache_port, our_port)
        self._number = 1
        self._shared: list[dict[str, str]] = []
        self._links: tuple[Connection, ...] = ()
        self._open = AsyncExitStack()
        self._limit = asyncio.Semaphore(_AT_ONCE)
        self.compared = 0
        self.equal: list[str] = []  # answers to the last cases that both servers treat alike

    async def __aenter__(self) -> Self:
        """Connect, and furnish what cases share that only read."""
        for port in self._ports:
            link = await self._open.enter_async_context(Connection(port))
            self._shared.append(await self._world.furnish(link, 0, 0))
            self._links = (*self._links, link)
            if self._world.reads:
                beats = asyncio.create_task(_keep_online(link))
                self._open.callback(beats.cancel)
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._open.aclose()

    async def run(
        self, cases: Sequence[Case], is_listed: Callable[[Difference], bool]
    ) -> list[Difference]:
        """Those that differ. What is not listed is run again, with more patience.

        A busy machine may make one server late: that is no difference.
        """
        self.compared += len(cases)
        first = await self._run_all(cases, _WAIT_S, _LOOKS_MAX)
        again = [each.case for each in first if not is_listed(each)]
        second = await self._run_all(again, _SECOND_WAIT_S, _SECOND_LOOKS_MAX) if again else []
        return [*filter(is_listed, first), *second]

    async def _run_all(
        self, cases: Sequence[Case], wait_s: float, looks_max: int
    ) -> list[Difference]:
        numbers = range(self._number, self._number + len(cases))
        self._number += len(cases)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._run_one(number, case, wait_s, looks_max))
                for number, case in zip(numbers, cases, strict=True)
            ]
        one, other = self._links
        left = await self._world.left_behind((one, other))
        found = []
        for number, case, task in zip(numbers, cases, tasks, strict=True):
            lines, answers = task.result()
            lines += left.get(number, [])
            if lines:
                found.append(Difference(case, lines, answers))
            else:
                self.equal = [*self.equal[-5:], str(Difference(case, [], answers))]
        return found

    async def _run_one(
        self, number: int, case: Case, wait_s: float, looks_max: int
    ) -> tuple[list[str], tuple[Answer, Answer]]:
        async with (
            self._limit,
            Connection(self._ports[0]) as apache,
            Connection(self._ports[1]) as ours,
        ):
            links = (apache, ours)
            answers = await asyncio.gather(
                *(self._ask(link, index, number, case, wait_s) for index, link in enumerate(links))
            )
            values, any_offset = case.code not in _ANY_VALUES, is_shared(case)
            lines = difference(
                *(comparable(each, values=values, any_offset=any_offset) for each in answers)
            )
            lines += difference(*(sorted(link.asked - _UNORDERED) for link in links), "asked")
            if case.code not in self._world.reads and not is_random(case):
                lines += await self._state(links, number, looks_max)
        return lines, (answers[0], answers[1])

    async def _ask(
        self, link: Connection, index: int, number: int, case: Case, wait_s: float
    ) -> Answer:
        if case.code in self._world.reads:
            number, facts = 0, self._shared[index]
        else:
            facts = await self._world.furnish(link, number, case.code)
        request = case.request(number, facts)
        if not case.second_port:
            return await link.ask(request, wait_s)
        async with Connection(self._ports[index] - 2) as second:
            return await second.ask(request, wait_s)

    async def _state(
        self, links: tuple[Connection, Connection], number: int, looks_max: int
    ) -> list[str]:
        """Looked at until it is equal: Apache puts a message in its queue after the answer."""
        lines: list[str] = []
        for look in range(looks_max):
            if look:
                await asyncio.sleep(_SETTLE_S)
            states = [await self._world.state(link, number) for link in links]
            lines = difference(*states, "state")
            if not lines:
                break
        return lines


async def _keep_online(link: Connection) -> None:
    """Heartbeats of the consumer and producer that cases share."""
    while True:
        await asyncio.sleep(_BEAT_S)
        await beat(link, 0)


def is_shared(case: Case) -> bool:
    """Does the message go to a queue that other cases write to as well?"""
    fields = case.fields or {}
    topic = str(fields.get("b", fields.get("topic", "T")))
    text = str(fields.get("i", "")) + str(case.body[:200])
    return topic not in NAMES or "DELAY" in text or "TRAN_MSG" in text or is_random(case)


def is_random(case: Case) -> bool:
    """Does the broker choose the queue?"""
    return case.field in ("queueId", "e") and case.how.startswith("number -")
