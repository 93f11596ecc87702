"""The producers and consumers of a session, as heartbeats and brokers' questions see them.

A session knows none of them by name: each joins, and is told what concerns it.
"""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from cometmq.errors import BadSetting
from cometmq.protocol.bodies.consumer import ConsumerRunningInfo, DirectConsumption
from cometmq.protocol.bodies.heartbeat import ConsumerData
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.headers.send import PushReplyHeader
from cometmq.protocol.headers.transaction import CheckTransactionHeader
from cometmq.protocol.records.message import StoredMessage
from cometmq.remoting.dispatch import Link

M = TypeVar("M")


class ProducerMember(Protocol):
    """A producer."""

    group: str  # with its namespace

    def check_transaction(
        self, link: Link, ask: CheckTransactionHeader, half: StoredMessage
    ) -> None:
        """A broker asks how a transaction ended; answered later, by a request on its link."""

    def take_reply(self, ask: PushReplyHeader, body: bytes) -> bool:
        """The reply to a request of somebody's: if it is to one of this producer's, take it."""


class ConsumerMember(Protocol):
    """A consumer."""

    group: str  # with its namespace

    def data(self) -> ConsumerData:
        """What it is and subscribes to, for a heartbeat."""

    def rebalance_soon(self) -> None:
        """The members of its group, or the queues of its topics, may have changed."""

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Go on from these, begun at once and done in the background."""

    def offsets_of(self, topic: str) -> Mapping[MessageQueue, int]:
        """Where it is."""

    def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """What runs in it."""

    async def consume_directly(self, message: StoredMessage, broker_name: str) -> DirectConsumption:
        """Give this message to the listener now, whatever else runs."""


class Members:
    """All of one session, each group once."""

    def __init__(self) -> None:
        self.producers: dict[str, ProducerMember] = {}
        self.consumers: dict[str, ConsumerMember] = {}

    def join_producer(self, member: ProducerMember) -> None:
        """It counts from now on."""
        _join(self.producers, member.group, member)

    def join_consumer(self, member: ConsumerMember) -> None:
        """It counts from now on."""
        _join(self.consumers, member.group, member)

    def leave_producer(self, member: ProducerMember) -> None:
        """It counts no more."""
        if self.producers.get(member.group) is member:
            del self.producers[member.group]

    def leave_consumer(self, member: ConsumerMember) -> None:
        """It counts no more."""
        if self.consumers.get(member.group) is member:
            del self.consumers[member.group]


def _join(table: dict[str, M], group: str, member: M) -> None:
    if table.setdefault(group, member) is not member:
        raise BadSetting(
            f"there is a member of group {group} already: give the other one a session of its own"
        )
