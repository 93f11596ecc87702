"""The producers and consumers of a session, as heartbeats and requests of brokers see them."""

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
    """What a session needs of a producer."""

    group: str  # with its namespace

    def check_transaction(
        self, link: Link, ask: CheckTransactionHeader, half: StoredMessage
    ) -> None:
        """Check the state of a transaction; the answer is a later request on `link`."""

    def take_reply(self, ask: PushReplyHeader, body: bytes) -> bool:
        """Accept a reply to a request of this producer; return False if it is not its request."""


class ConsumerMember(Protocol):
    """What a session needs of a consumer."""

    group: str  # with its namespace

    def data(self) -> ConsumerData:
        """Return the consumer's part of a heartbeat."""

    def rebalance_soon(self) -> None:
        """Rebalance: members of the group or queues of its topics may have changed."""

    def reset_offsets(self, topic: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Continue at these offsets; the work is done in the background."""

    def offsets_of(self, topic: str) -> Mapping[MessageQueue, int]:
        """Return the current offsets of a topic."""

    def running_info(self, *, with_stacks: bool) -> ConsumerRunningInfo:
        """Return the state for GET_CONSUMER_RUNNING_INFO."""

    async def consume_directly(self, message: StoredMessage, broker_name: str) -> DirectConsumption:
        """Pass a message to the listener now, independent of running calls."""


class Members:
    """The members of one session, at most one per group and kind."""

    def __init__(self) -> None:
        self.producers: dict[str, ProducerMember] = {}
        self.consumers: dict[str, ConsumerMember] = {}

    def join_producer(self, member: ProducerMember) -> None:
        _join(self.producers, member.group, member)

    def join_consumer(self, member: ConsumerMember) -> None:
        _join(self.consumers, member.group, member)

    def leave_producer(self, member: ProducerMember) -> None:
        if self.producers.get(member.group) is member:
            del self.producers[member.group]

    def leave_consumer(self, member: ConsumerMember) -> None:
        if self.consumers.get(member.group) is member:
            del self.consumers[member.group]


def _join(table: dict[str, M], group: str, member: M) -> None:
    if table.setdefault(group, member) is not member:
        raise BadSetting(
            f"the session already has a member of group {group}: use a separate session"
        )
