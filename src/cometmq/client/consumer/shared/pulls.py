"""Pull requests: choose the broker node, send the request and decode the result."""

import logging
from dataclasses import dataclass, field

from cometmq.client.message import PULL_STATUS_OF, PullResult, PullStatus, ReceivedMessage
from cometmq.client.session.session import Session
from cometmq.errors import Malformed, NoRoute, PeerError, Unreachable, WorldError
from cometmq.protocol.bodies.heartbeat import Subscription
from cometmq.protocol.bodies.queues import MessageQueue
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
    """A pull request."""

    queue: MessageQueue
    offset: int
    count: int
    subscription: Subscription
    with_expression: bool = False  # False: the broker uses the filter of the heartbeat
    commit: int | None = None  # an offset to commit with the pull
    suspend_ms: int = 0  # how long the broker may hold the pull; 0: not at all
    timeout_ms: int  # for the response
    is_lite: bool = False
    generation: int = 0  # of a lite pull consumer's position; not sent to the broker

    @property
    def flags(self) -> int:
        """The sysFlag of the request."""
        return (
            PullFlag.COMMIT_OFFSET * (self.commit is not None)
            | PullFlag.SUSPEND * bool(self.suspend_ms)
            | PullFlag.SUBSCRIPTION * self.with_expression
            | PullFlag.LITE_PULL * self.is_lite
        )


@dataclass(slots=True)
class Pulls:
    """Sends the pulls of one group, to the node (master or slave) that the broker suggested."""

    session: Session
    group: str
    namespace: str = ""
    _nodes: dict[MessageQueue, int] = field(default_factory=dict)

    async def pull(self, ask: Pull) -> PullResult:
        """Pull once. Raises Refused, NoRoute, Unreachable or TimedOut if it fails."""
        queue = ask.queue
        address, is_master = await self._node_of(queue)
        flags = ask.flags
        if not is_master:
            flags &= ~PullFlag.COMMIT_OFFSET  # a slave stores no offsets
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
        """Drop the suggested node, after the queue was revoked or the node failed."""
        self._nodes.pop(queue, None)

    async def _node_of(self, queue: MessageQueue) -> tuple[str, bool]:
        """The address to pull from, and whether it is the master."""
        routes, name = self.session.routes, queue.broker_name
        for _ in range(2):
            master, node = routes.address_of(name), self._nodes.get(queue)
            address = master if node is None else routes.address_of(name, node)
            address = address or routes.any_address_of(name)
            if address is not None:
                return address, address == master
            await routes.fetch(queue.topic)
        raise NoRoute(
            f"broker {queue.broker_name} of topic {queue.topic} has no route: is it down?"
        )

    async def _look_again(self, queue: MessageQueue, error: Exception) -> None:
        """Drop the suggested node; refresh the route if the node was unreachable."""
        self.forget(queue)
        if isinstance(error, Unreachable):
            try:
                await self.session.routes.fetch(queue.topic)
            except (PeerError, WorldError) as other:
                log.debug("cannot refresh the route of %s: %s", queue.topic, other)

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
    """Filter messages by their tags: brokers compare only hashes of tags, which may collide."""
    if not subscription.tags_set or subscription.expression_type != TAG:
        return messages
    tags = frozenset(subscription.tags_set)
    return tuple([message for message in messages if _has_one_of(message, tags)])


def _has_one_of(message: ReceivedMessage, tags: frozenset[str]) -> bool:
    try:
        return message.tags in tags
    except Malformed:
        return True  # deliver it: the listener fails on this message only
