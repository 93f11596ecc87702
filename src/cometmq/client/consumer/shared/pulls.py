"""One pull: the question, the node that is asked, and the messages of the answer."""

import logging
from dataclasses import dataclass, field

from cometmq.client.message import PULL_STATUS_OF, PullResult, PullStatus, ReceivedMessage
from cometmq.client.session.session import Session
from cometmq.errors import Malformed, NoRoute, PeerError, Unreachable, WorldError
from cometmq.protocol.bodies.heartbeat import Subscription
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.route import MASTER_ID
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.command import Command
from cometmq.protocol.filter.tags import TAG
from cometmq.protocol.flags import PullFlag
from cometmq.protocol.headers.base import read_header
from cometmq.protocol.headers.pull import PullHeader, PullReplyHeader
from cometmq.protocol.refusal import refusal_of

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pull:
    """What to ask of a queue."""

    queue: MessageQueue
    offset: int
    count: int
    subscription: Subscription
    with_expression: bool = False  # else the broker goes by what the heartbeats said
    commit: int | None = None  # an offset to keep on the way
    suspend_ms: int = 0  # how long the broker may wait for a message; 0 is not at all
    timeout_ms: int  # for the answer
    is_lite: bool = False
    generation: int = 0  # of a lite reader's position; not sent

    @property
    def flags(self) -> int:
        """As the wire has them."""
        return (
            PullFlag.COMMIT_OFFSET * (self.commit is not None)
            | PullFlag.SUSPEND * bool(self.suspend_ms)
            | PullFlag.SUBSCRIPTION * self.with_expression
            | PullFlag.LITE_PULL * self.is_lite
        )


@dataclass(slots=True)
class Pulls:
    """Pulls of one group. Brokers say which of their nodes a queue is to be read from next."""

    session: Session
    group: str
    namespace: str = ""
    _nodes: dict[MessageQueue, int] = field(default_factory=dict)

    async def pull(self, ask: Pull) -> PullResult:
        """What was found. Refused, NoRoute, Unreachable or TimedOut, if nothing can be."""
        queue = ask.queue
        address, is_master = await self._node_of(queue)
        flags = ask.flags
        if not is_master:
            flags &= ~PullFlag.COMMIT_OFFSET  # a slave keeps none
        header = PullHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=ask.offset,
            max_msg_nums=ask.count,
            sys_flag=flags,
            commit_offset=ask.commit or 0,
            suspend_timeout_millis=ask.suspend_ms,
            subscription=ask.subscription.sub_string if ask.with_expression else None,
            sub_version=ask.subscription.sub_version,
            expression_type=ask.subscription.expression_type,
        )
        self.session.check_open()
        try:
            response = await self.session.pool.invoke(
                address, RequestCode.PULL_MESSAGE, header, timeout_ms=ask.timeout_ms
            )
        except (PeerError, WorldError) as error:
            await self._look_again(queue, error)
            raise
        status = PULL_STATUS_OF.get(response.code)
        if status is None:
            self.forget(queue)
            raise refusal_of(response, f"broker {address}")
        return self._result(status, response, ask)

    def forget(self, queue: MessageQueue) -> None:
        """It is not ours any more, or the node that was named for it fails."""
        self._nodes.pop(queue, None)

    async def _node_of(self, queue: MessageQueue) -> tuple[str, bool]:
        """The address to ask, and whether it is the master's."""
        routes = self.session.routes
        node = self._nodes.get(queue, MASTER_ID)
        for _ in range(2):
            address = routes.address_of(queue.broker_name, node)
            if address is not None:
                return address, node == MASTER_ID
            address = routes.any_address_of(queue.broker_name)
            if address is not None:
                return address, address == routes.address_of(queue.broker_name)
            await routes.fetch(queue.topic)
        raise NoRoute(
            f"broker {queue.broker_name} of topic {queue.topic} is not known: is it down?"
        )

    async def _look_again(self, queue: MessageQueue, error: Exception) -> None:
        """The next pull asks the master, at the address that it has by then."""
        self.forget(queue)
        if isinstance(error, Unreachable):
            try:
                await self.session.routes.fetch(queue.topic)
            except (PeerError, WorldError) as other:
                log.info("the route of %s stays as it is: %s", queue.topic, other)

    def _result(self, status: PullStatus, response: Command, ask: Pull) -> PullResult:
        header = read_header(response, PullReplyHeader)
        self._nodes[ask.queue] = header.suggest_which_broker_id
        messages: tuple[ReceivedMessage, ...] = ()
        if status is PullStatus.FOUND:
            broker_name = ask.queue.broker_name
            messages = tuple(ReceivedMessage.all_of(response.body, broker_name, self.namespace))
            messages = _wanted(messages, ask.subscription)
        return PullResult(
            status, header.next_begin_offset, header.min_offset, header.max_offset, messages
        )


def _wanted(
    messages: tuple[ReceivedMessage, ...], subscription: Subscription
) -> tuple[ReceivedMessage, ...]:
    """Brokers compare hashes of tags, which may be equal where tags are not."""
    if not subscription.tags_set or subscription.expression_type != TAG:
        return messages
    tags = frozenset(subscription.tags_set)
    return tuple([message for message in messages if _has_one_of(message, tags)])


def _has_one_of(message: ReceivedMessage, tags: frozenset[str]) -> bool:
    try:
        return message.tags in tags
    except Malformed:
        return True  # one that cannot be read is its consumer's to fail, and holds up no other
