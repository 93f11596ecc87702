"""Allocation strategies: which member of a group gets which queues of a topic.

Each member computes the allocation for itself, so the results must equal those of Java members.
Queues and client ids are sorted as in Java: `queues_in_order`, `clients_in_order`. A client that is
not in the list of members, as for a moment after it has joined, gets no queues.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import md5
from typing import Protocol, TypeVar

from cometmq.client.fields import Several, Whole
from cometmq.errors import BadSetting
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.names import machine_room

VIRTUAL_NODES = 10  # of a client on the ring

Queues = Sequence[MessageQueue]
T = TypeVar("T")


class Allocation(Protocol):
    """An allocation strategy. All members of a group must use the same one."""

    @property
    def name(self) -> str:
        """The name of the strategy in Java."""

    def allocate(self, client_id: str, queues: Queues, client_ids: Sequence[str]) -> Queues:
        """The queues of this client. There is at least one queue and one client."""


def clients_in_order(client_ids: Iterable[str]) -> list[str]:
    """Client ids in Java's string order."""
    return sorted(client_ids, key=_utf16)


def queues_in_order(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Queues in Java's order."""
    return sorted(
        queues, key=lambda queue: (_utf16(queue.topic), _utf16(queue.broker_name), queue.queue_id)
    )


def _utf16(text: str) -> bytes:
    """Java compares texts by their UTF-16 units."""
    return text.encode("utf-16-be", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Averagely:
    """Each client gets a range of neighboring queues; the first clients may get one more."""

    name = "AVG"

    def allocate(self, client_id: str, queues: Queues, client_ids: Sequence[str]) -> Queues:
        """The range of this client."""
        rank = _rank(client_id, queues, client_ids)
        if rank is None:
            return []
        share, over = divmod(len(queues), len(client_ids))
        start = rank * share + min(rank, over)
        return queues[start : start + share + (rank < over)]


@dataclass(frozen=True, slots=True)
class AveragelyByCircle:
    """Each client gets every n-th queue."""

    name = "AVG_BY_CIRCLE"

    def allocate(self, client_id: str, queues: Queues, client_ids: Sequence[str]) -> Queues:
        """Every n-th queue, from the rank of this client."""
        rank = _rank(client_id, queues, client_ids)
        return [] if rank is None else queues[rank :: len(client_ids)]


@dataclass(frozen=True, slots=True)
class ConsistentHash:
    """Clients are points on a ring; a queue belongs to the next point from its own place on.

    When a client comes or goes, only its own queues change hands.
    """

    virtual_nodes: int = VIRTUAL_NODES
    name = "CONSISTENT_HASH"

    def __post_init__(self) -> None:
        Whole(VIRTUAL_NODES, 1).check("virtual_nodes", self.virtual_nodes)

    def allocate(self, client_id: str, queues: Queues, client_ids: Sequence[str]) -> Queues:
        """The queues whose next point on the ring belongs to this client."""
        if _rank(client_id, queues, client_ids) is None:
            return []
        owners = self._ring(client_ids)
        points = sorted(owners)
        mine = []
        for queue in queues:
            at = bisect_left(points, _point(_java_text(queue)))
            if owners[points[at % len(points)]] == client_id:
                mine.append(queue)
        return mine

    def _ring(self, client_ids: Sequence[str]) -> dict[int, str]:
        """The owner of each point. If two points collide, the later one wins."""
        ring: dict[int, str] = {}
        points_of: dict[str, int] = {}
        for client_id in client_ids:
            first = points_of.get(client_id, 0)  # not 0 for a client that is listed twice
            for index in range(first, first + self.virtual_nodes):
                ring[_point(f"{client_id}-{index}")] = client_id
            points_of[client_id] = first + self.virtual_nodes
        return ring


@dataclass(frozen=True, slots=True)
class ByConfig:
    """The queues that the user chose, whatever other members there are."""

    queues: tuple[MessageQueue, ...]
    name = "CONFIG"

    def __post_init__(self) -> None:
        object.__setattr__(self, "queues", Several(MessageQueue).check("queues", self.queues))

    def allocate(self, client_id: str, queues: Queues, client_ids: Sequence[str]) -> Queues:
        """The chosen queues."""
        return self.queues


@dataclass(frozen=True, slots=True)
class ByMachineRoom:
    """Only queues of brokers in these rooms; such a broker is named `room@name`."""

    rooms: frozenset[str]
    name = "MACHINE_ROOM"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rooms", frozenset(Several(str).check("rooms", self.rooms)))

    def allocate(self, client_id: str, queues: Queues, client_ids: Sequence[str]) -> Queues:
        """A range of equal length for each client, then one more for the first clients."""
        rank = _rank(client_id, queues, client_ids)
        if rank is None:
            return []
        near = [queue for queue in queues if machine_room(queue.broker_name) in self.rooms]
        share, over = divmod(len(near), len(client_ids))
        mine = near[rank * share : (rank + 1) * share]
        if rank < over:
            mine.append(near[share * len(client_ids) + rank])
        return mine


@dataclass(frozen=True, slots=True)
class MachineRoomNearby:
    """Clients of a room share its queues; queues of a room without clients are shared by all."""

    inner: Allocation
    room_of_queue: Callable[[MessageQueue], str]
    room_of_client: Callable[[str], str]

    @property
    def name(self) -> str:
        """The name includes that of the inner strategy."""
        return f"MACHINE_ROOM_NEARBY-{self.inner.name}"

    def allocate(self, client_id: str, queues: Queues, client_ids: Sequence[str]) -> Queues:
        """The queues of our room first, then those of rooms without clients, by name."""
        if _rank(client_id, queues, client_ids) is None:
            return []
        queues_in = _by_room(queues, self.room_of_queue)
        clients_in = _by_room(client_ids, self.room_of_client)
        room = self.room_of_client(client_id)
        mine: list[MessageQueue] = []
        if room in queues_in:
            mine += self.inner.allocate(client_id, queues_in[room], clients_in[room])
        for lonely in sorted(queues_in.keys() - clients_in.keys(), key=_utf16):
            mine += self.inner.allocate(client_id, queues_in[lonely], client_ids)
        return mine


def _rank(client_id: str, queues: Queues, client_ids: Sequence[str]) -> int | None:
    assert client_id and queues and client_ids, "nothing to share, or nobody to share it"
    return client_ids.index(client_id) if client_id in client_ids else None


def _by_room(members: Iterable[T], room_of: Callable[[T], str]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for member in members:
        room = room_of(member)
        if not room:
            raise BadSetting(f"no machine room is known for {member}: give it one")
        found.setdefault(room, []).append(member)
    return found


def _point(text: str) -> int:
    """The first four bytes of the MD5."""
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4])


def _java_text(queue: MessageQueue) -> str:
    """The result of Java's `MessageQueue.toString`, which is hashed."""
    place = f"topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}"
    return f"MessageQueue [{place}]"
