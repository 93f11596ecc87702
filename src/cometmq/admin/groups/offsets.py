"""Resets, shifts or copies the consumer offsets of a group."""

from collections.abc import Iterable
from dataclasses import replace
from enum import Enum

import msgspec

from cometmq.admin import topic as topics
from cometmq.admin.groups import group as groups
from cometmq.admin.groups import members, progress
from cometmq.admin.rows import NOT_DONE, SUCCESS, Row, failed
from cometmq.admin.session import AdminSession
from cometmq.errors import BadSetting, NoRoute, PeerError, Refused, WorldError
from cometmq.protocol.bodies.consumer import ResetOffsets
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.stats import TopicOffset
from cometmq.protocol.bodies.tables import ConsumerOffsetTable
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.base import read_header
from cometmq.protocol.headers.consumer import ResetOffsetHeader
from cometmq.protocol.headers.offset import (
    OffsetReplyHeader,
    SearchOffsetHeader,
    UpdateOffsetHeader,
)
from cometmq.protocol.java.fastjson import loads

_TO_THE_END = -1  # the timestamp that stands for the end of a queue
_TO_THE_START = 0
_CPLUS = "CPP"

Offsets = dict[MessageQueue, int]


class ResetKind(Enum):
    """The kinds of targets of a reset."""

    TIME = "time"
    OFFSET = "offset"
    SHIFT = "shift"
    EARLIEST = "earliest"
    LATEST = "latest"


class Target(msgspec.Struct, frozen=True):
    """The target of a reset."""

    kind: ResetKind
    value: int = 0  # a time in ms since 1970, an offset, or a shift

    @property
    def time_ms(self) -> int | None:
        """The target as a timestamp, or None. Groups with members need a timestamp."""
        times = {
            ResetKind.TIME: self.value,
            ResetKind.EARLIEST: _TO_THE_START,
            ResetKind.LATEST: _TO_THE_END,
        }
        return times.get(self.kind)


class Move(Row, frozen=True):
    """The old and new offset of a group in one queue."""

    broker_name: str
    queue_id: int
    min_offset: int
    broker_offset: int
    consumer_offset: int | None
    new_offset: int
    change: str
    outcome: str


async def reset_by_time(
    admin: AdminSession,
    *,
    group: str,
    topic: str,
    time_ms: int,
    force: bool = True,
    cplus: bool = False,
) -> list[Move]:
    """Reset a group to a time or to the end. Without `force`, offsets only move backward."""
    kind = ResetKind.LATEST if time_ms == _TO_THE_END else ResetKind.TIME
    target = Target(kind, time_ms)
    return await reset(admin, group=group, topic=topic, target=target, force=force, cplus=cplus)


async def skip(admin: AdminSession, *, group: str, topic: str, force: bool = True) -> list[Move]:
    """Skip all messages that a group has not consumed."""
    return await reset(
        admin, group=group, topic=topic, target=Target(ResetKind.LATEST), force=force
    )


async def reset_to(
    admin: AdminSession,
    *,
    group: str,
    topic: str,
    earliest: bool = False,
    latest: bool = False,
    time_ms: int | None = None,
    offset: int | None = None,
    shift: int | None = None,
    queue_id: int | None = None,
    broker_name: str | None = None,
) -> list[Move]:
    """Reset a group to exactly one of the five kinds of targets, in all or in selected queues."""
    options = {
        ResetKind.EARLIEST: 0 if earliest else None,
        ResetKind.LATEST: 0 if latest else None,
        ResetKind.TIME: time_ms,
        ResetKind.OFFSET: offset,
        ResetKind.SHIFT: shift,
    }
    targets = [Target(kind, value) for kind, value in options.items() if value is not None]
    if len(targets) != 1:
        raise BadSetting(
            "give exactly one of --to-earliest, --to-latest, --to-time, --to-offset or --shift-by"
        )
    target = targets[0]
    if target == Target(ResetKind.TIME, _TO_THE_END):
        target = Target(ResetKind.LATEST)
    return await reset(
        admin, group=group, topic=topic, target=target, queue_id=queue_id, broker_name=broker_name
    )


async def reset(
    admin: AdminSession,
    *,
    group: str,
    topic: str,
    target: Target,
    force: bool = True,
    cplus: bool = False,
    queue_id: int | None = None,
    broker_name: str | None = None,
) -> list[Move]:
    """Reset a group: through its members if any are online, otherwise directly at the brokers."""
    bounds = {
        queue: each
        for queue, each in sorted((await topics.offsets(admin, topic)).items())
        if queue_id in (None, queue.queue_id) and broker_name in (None, queue.broker_name)
    }
    if not bounds:
        raise NoRoute(f"topic {topic} has no matching queue")
    masters = await topics.masters_of(admin, topic)
    known = await _known(admin, group, topic, masters)
    goals = await _goals(admin, bounds, known, target, force)
    online = [each for each in masters if await members.connection_at(admin, each, group)]
    if online:
        is_partial = queue_id is not None or broker_name is not None
        if target.time_ms is None or is_partial:
            raise BadSetting(
                f"group {group} has members, which would overwrite this: stop them first,"
                " or reset all queues to a time, to the earliest or to the latest"
            )
        header = ResetOffsetHeader(
            topic=topic, group=group, timestamp=target.time_ms, is_force=force
        )
        outcomes = await _through_members(admin, online, header, goals, cplus)
    else:
        await _refuse_unknown(admin, group, masters)
        outcomes = {}
    outcomes |= await _at_brokers(admin, group, goals.keys() - outcomes.keys(), goals)
    return [_move(queue, bounds[queue], known.get(queue), *outcomes[queue]) for queue in bounds]


async def clone(
    admin: AdminSession, *, source: str, group: str, topic: str, offline: bool = False
) -> list[Move]:
    """Copy the offsets of the group `source` to the group `group`."""
    masters = await topics.masters_of(admin, topic)
    goals = await _known(admin, source, topic, masters)
    if not goals:
        raise Refused(
            ResponseCode.QUERY_NOT_FOUND, f"group {source} has no offsets in topic {topic}"
        )
    for each in masters:
        if await members.connection_at(admin, each, group):
            raise BadSetting(
                f"group {group} has members, which would overwrite this: stop them first"
            )
    bounds = await topics.offsets(admin, topic)
    known = await _known(admin, group, topic, masters)
    outcomes = await _at_brokers(admin, group, goals.keys(), goals)
    nothing = TopicOffset()
    return [
        _move(queue, bounds.get(queue, nothing), known.get(queue), *outcomes[queue])
        for queue in sorted(goals)
    ]


async def _known(admin: AdminSession, group: str, topic: str, masters: list[str]) -> Offsets:
    """Return the committed offsets of the group. Brokers report 0 for a queue without an offset."""
    stats = await progress.consumed(admin, group, topic, masters)
    return {queue: place.consumer_offset for queue, place in stats.offset_table.items()}


async def _refuse_unknown(admin: AdminSession, group: str, masters: list[str]) -> None:
    """Raises NoRoute for an unknown group, which is probably a typo."""
    for master in masters:
        if group in await groups.configs(admin, master):
            return
        answer = await admin.ask(master, RequestCode.GET_ALL_CONSUMER_OFFSET)
        kept = loads(answer.body, ConsumerOffsetTable).offset_table
        if any(key.partition("@")[2] == group for key in kept):
            return
    raise NoRoute(f"group {group} is unknown to all brokers of the topic: check the spelling")


async def _goals(
    admin: AdminSession,
    bounds: dict[MessageQueue, TopicOffset],
    known: Offsets,
    target: Target,
    force: bool,
) -> Offsets:
    async def one(queue: MessageQueue, limits: TopicOffset) -> int:
        low, high = limits.min_offset, limits.max_offset
        here = known.get(queue, low)
        if target.kind is ResetKind.TIME:
            goal = await _offset_at(admin, queue, target.value)
        else:
            goal = {
                ResetKind.OFFSET: target.value,
                ResetKind.SHIFT: here + target.value,
                ResetKind.EARLIEST: low,
                ResetKind.LATEST: high,
            }[target.kind]
        goal = min(max(goal, low), high)
        return goal if force else min(goal, here)

    found = await admin.all(one(queue, limits) for queue, limits in bounds.items())
    return dict(zip(bounds, found, strict=True))


async def _offset_at(admin: AdminSession, queue: MessageQueue, time_ms: int) -> int:
    header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=time_ms)
    address = await admin.master_named(queue.broker_name)
    answer = await admin.ask(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
    return read_header(answer, OffsetReplyHeader).offset


Outcomes = dict[MessageQueue, tuple[int, str]]


async def _through_members(
    admin: AdminSession, online: list[str], header: ResetOffsetHeader, goals: Offsets, cplus: bool
) -> Outcomes:
    """Reset through the members: they discard pulled messages and continue at the new offsets."""
    names = {await admin.name_at(address): address for address in online}
    outcomes: Outcomes = {
        queue: (goal, NOT_DONE) for queue, goal in goals.items() if queue.broker_name in names
    }
    if admin.config.dry_run:
        return outcomes
    config = replace(admin.config, language=_CPLUS) if cplus else admin.config
    async with AdminSession(config, clock=admin.clock) as session:
        for name, address in names.items():
            own = {queue: goals[queue] for queue in outcomes if queue.broker_name == name}
            try:
                moved, outcome = await _reset_members(session, address, header, own), SUCCESS
            except (PeerError, WorldError) as error:
                moved, outcome = {}, failed(error)
            for queue, goal in own.items():
                outcomes[queue] = (moved.get(queue, goal), outcome)
    return outcomes


async def _reset_members(
    admin: AdminSession, address: str, header: ResetOffsetHeader, goals: Offsets
) -> Offsets:
    """Reset the members through one broker, and return the new offsets that it sent to them."""
    code = RequestCode.INVOKE_BROKER_TO_RESET_OFFSET
    try:
        answer = await admin.ask(address, code, header)
    except Refused as refused:
        if refused.code != ResponseCode.SYSTEM_ERROR:
            raise
        # Apache's broker refuses the reset if the group lacks an offset in one of the queues.
        await _at_brokers(admin, header.group, goals, goals)
        answer = await admin.ask(address, code, header)
    return loads(answer.body, ResetOffsets).offset_table


async def _at_brokers(
    admin: AdminSession, group: str, queues: Iterable[MessageQueue], goals: Offsets
) -> Outcomes:
    """Commit the new offsets at the brokers, for a group without members.

    The first commit at each broker is sent alone, because Apache's broker loses one of two
    concurrent first commits of a group in a topic.
    """

    async def one(queue: MessageQueue) -> tuple[int, str]:
        header = UpdateOffsetHeader(
            consumer_group=group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            commit_offset=goals[queue],
        )
        change = await admin.change(
            f"move {group}",
            await admin.master_named(queue.broker_name),
            RequestCode.UPDATE_CONSUMER_OFFSET,
            header,
        )
        return goals[queue], change.outcome

    chosen = list(queues)
    firsts = list({queue.broker_name: queue for queue in chosen}.values())
    outcomes: Outcomes = {}
    for some in (firsts, [queue for queue in chosen if queue not in firsts]):
        outcomes |= dict(zip(some, await admin.all(map(one, some)), strict=True))
    return outcomes


def _move(
    queue: MessageQueue, limits: TopicOffset, here: int | None, goal: int, outcome: str
) -> Move:
    return Move(
        queue.broker_name,
        queue.queue_id,
        limits.min_offset,
        limits.max_offset,
        here,
        goal,
        f"{goal - (here or 0):+d}",
        outcome,
    )
