"""Blocking requests to the brokers of a cluster: routes, queue bounds and consumer offsets."""

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cometmq.client.session.route import ClientRoute
from cometmq.errors import NoRoute, PeerError, Refused, TimedOut, Unreachable, WorldError
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.route import MASTER_ID
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.headers.base import Header, read_header
from cometmq.protocol.headers.offset import (
    OffsetReplyHeader,
    QueryOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    UpdateOffsetHeader,
)
from cometmq.spark.read.link import Access, BlockingLink, links_of
from cometmq.spark.read.name_servers import fetch_route, matching_topics

log = logging.getLogger(__name__)

_IN_FLIGHT_MAX = 32  # requests of one call of `max_offsets`


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster, identified by its name servers. It can be pickled and sent to a worker."""

    name_servers: tuple[str, ...]
    access: Access
    _routes: dict[str, ClientRoute] = field(default_factory=dict, compare=False, repr=False)

    # Routes

    def route(self, topic: str, *, fresh: bool = False) -> ClientRoute:
        """Return the cached route, or fetch it; NoRoute if the topic is unknown."""
        if fresh or topic not in self._routes:
            self._routes[topic] = fetch_route(self.name_servers, self.access, topic)
        return self._routes[topic]

    def topics_like(self, pattern: str) -> list[str]:
        """Return the user topics whose whole name matches. An empty result is not an error."""
        return matching_topics(self.name_servers, self.access, pattern)

    def link_to(self, topic: str, broker_name: str, *, fresh: bool = False) -> BlockingLink:
        """Connect to the first reachable node of a broker, trying the master first."""
        nodes = self.route(topic, fresh=fresh).brokers.get(broker_name, {})
        if not nodes:
            raise NoRoute(f"broker {broker_name} of topic {topic} is not registered: is it down?")
        failures = []
        for broker_id in sorted(nodes):
            try:
                return links_of(self.access).to(nodes[broker_id])
            except Unreachable as error:
                failures.append(str(error))
        raise Unreachable(f"broker {broker_name}: {'; '.join(failures)}")

    def master_link(self, topic: str, broker_name: str, *, fresh: bool = False) -> BlockingLink:
        """Connect to the master of a broker, the only node that accepts messages."""
        return links_of(self.access).to(self.master_address(topic, broker_name, fresh=fresh))

    def master_address(self, topic: str, broker_name: str, *, fresh: bool = False) -> str:
        """Return the address of the master of a broker; NoRoute if none is registered."""
        nodes = self.route(topic, fresh=fresh).brokers.get(broker_name, {})
        if MASTER_ID not in nodes:
            raise NoRoute(f"the master of broker {broker_name} of topic {topic} is not registered")
        return nodes[MASTER_ID]

    def is_master(self, queue: MessageQueue, address: str) -> bool:
        """Return whether the cached route names this address as the queue's master."""
        nodes = self.route(queue.topic).brokers.get(queue.broker_name, {})
        return nodes.get(MASTER_ID) == address

    def forget_routes(self) -> None:
        """Drop all cached routes."""
        self._routes.clear()

    # Queues

    def min_offset(self, queue: MessageQueue) -> int:
        """Return the lowest offset whose message still exists."""
        return self._offset(RequestCode.GET_MIN_OFFSET, queue, _header(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message gets."""
        return self._offset(RequestCode.GET_MAX_OFFSET, queue, _header(queue))

    def max_offsets(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """Return `max_offset` of many queues. Requests are pipelined."""
        found: dict[MessageQueue, int] = {}
        for start in range(0, len(queues), _IN_FLIGHT_MAX):
            some = queues[start : start + _IN_FLIGHT_MAX]
            try:
                found |= self._pipelined(some)
            except (Unreachable, NoRoute):  # one by one, because `max_offset` retries
                found |= {queue: self.max_offset(queue) for queue in some}
        return found

    def _pipelined(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        asked: deque[tuple[MessageQueue, BlockingLink, int]] = deque()
        found: dict[MessageQueue, int] = {}
        try:
            for queue in queues:
                link = self.master_link(queue.topic, queue.broker_name)
                asked.append((queue, link, link.send(RequestCode.GET_MAX_OFFSET, _header(queue))))
            while asked:
                queue, link, opaque = asked.popleft()
                response = link.granted(link.answer(opaque))
                found[queue] = read_header(response, OffsetReplyHeader).offset
        finally:
            for _, link, opaque in asked:
                link.abandon(opaque)
        return found

    def offset_near(self, queue: MessageQueue, time_ms: int) -> int:
        """Return the offset of a message stored near that time, possibly shortly before it."""
        header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=time_ms)
        return self._offset(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue, header)

    def consumer_offset(self, group: str, queue: MessageQueue) -> int | None:
        """Return the offset that the group has committed; None if it never committed one."""
        header = QueryOffsetHeader(consumer_group=group, topic=queue.topic, queue_id=queue.queue_id)
        try:
            return self._offset(RequestCode.QUERY_CONSUMER_OFFSET, queue, header)
        except Refused as refusal:
            if refusal.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit offsets of a group at the brokers."""
        for queue, offset in offsets.items():
            header = UpdateOffsetHeader(
                consumer_group=group,
                topic=queue.topic,
                queue_id=queue.queue_id,
                commit_offset=offset,
            )
            self.ask_master(queue, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    def try_commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Commit offsets that only serve monitoring: a failure is logged, not raised.

        After a broker did not answer, its other queues are skipped.
        """
        unreachable: set[str] = set()
        for queue, offset in offsets.items():
            if queue.broker_name in unreachable:
                continue
            try:
                self.commit(group, {queue: offset})
            except (Unreachable, TimedOut) as error:
                unreachable.add(queue.broker_name)
                log.warning(
                    "broker %s: offsets of group %s not committed: %s",
                    queue.broker_name,
                    group,
                    error,
                )
            except (WorldError, PeerError) as error:
                log.warning("%s: offset of group %s not committed: %s", queue, group, error)

    def ask_master(
        self, queue: MessageQueue, code: RequestCode, header: Header | None, body: bytes = b""
    ) -> Command:
        """Send a request to the queue's master; Refused unless the response is a success."""
        try:
            link = self.master_link(queue.topic, queue.broker_name)
            response = link.ask(code, header, body)
        except (Unreachable, NoRoute):  # the broker may have moved, or the connection was stale
            link = self.master_link(queue.topic, queue.broker_name, fresh=True)
            response = link.ask(code, header, body)
        return link.granted(response)

    def _offset(self, code: RequestCode, queue: MessageQueue, header: Header) -> int:
        return read_header(self.ask_master(queue, code, header), OffsetReplyHeader).offset


def _header(queue: MessageQueue) -> QueueHeader:
    return QueueHeader(topic=queue.topic, queue_id=queue.queue_id)
