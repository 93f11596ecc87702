"""Questions to name servers and brokers, one after the other: routes, bounds, offsets."""

import logging
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cometmq.client.session.route import ClientRoute
from cometmq.errors import (
    BadSetting,
    NoRoute,
    PeerError,
    Refused,
    TimedOut,
    Unreachable,
    WorldError,
)
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.route import MASTER_ID, TopicList, TopicRoute
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.headers.base import Header, read_header
from cometmq.protocol.headers.namesrv import RouteHeader
from cometmq.protocol.headers.offset import (
    OffsetReplyHeader,
    QueryOffsetHeader,
    QueueHeader,
    SearchOffsetHeader,
    UpdateOffsetHeader,
)
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.names import is_system_topic
from cometmq.protocol.refusal import refusal_of
from cometmq.spark.read.link import Access, BlockingLink, links_of

log = logging.getLogger(__name__)

_TOGETHER_MAX = 32  # questions on their way
_LEFT_BY_MACHINES = ("%RETRY%", "%DLQ%", "rmq_sys_")


@dataclass(frozen=True, slots=True)
class Cluster:
    """By its name servers. A value: it may be sent to a worker."""

    name_servers: tuple[str, ...]
    access: Access
    _routes: dict[str, ClientRoute] = field(default_factory=dict, compare=False, repr=False)

    # Routes

    def route(self, topic: str, *, fresh: bool = False) -> ClientRoute:
        """Who has the topic; NoRoute if nobody does."""
        if fresh or topic not in self._routes:
            header = RouteHeader(topic=topic, accept_standard_json_only=True)
            response = self._ask_name_server(RequestCode.GET_ROUTEINFO_BY_TOPIC, header)
            if response.code != ResponseCode.SUCCESS:
                raise NoRoute(
                    f"there is no topic {topic}, say the name servers"
                    f" {';'.join(self.name_servers)}: check its name, create it, or start the"
                    " broker that has it"
                )
            self._routes[topic] = ClientRoute.of(topic, loads(bytes(response.body), TopicRoute))
        return self._routes[topic]

    def topics_like(self, pattern: str) -> list[str]:
        """The users' topics whose whole name matches; none is no error, as one may come."""
        response = self._ask_name_server(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        if response.code != ResponseCode.SUCCESS:
            raise refusal_of(response, f"name server {self.name_servers[0]}")
        wanted = re.compile(pattern)
        names = loads(bytes(response.body), TopicList).topic_list
        return sorted(
            name
            for name in names
            if wanted.fullmatch(name)
            and not is_system_topic(name)
            and not name.startswith(_LEFT_BY_MACHINES)
        )

    def addresses(self, topic: str, broker_name: str, *, fresh: bool = False) -> Sequence[str]:
        """Of the nodes of a broker, the master first."""
        nodes = self.route(topic, fresh=fresh).brokers.get(broker_name, {})
        if not nodes:
            raise NoRoute(f"broker {broker_name} of topic {topic} is not known: is it down?")
        return [nodes[each] for each in sorted(nodes)]

    def link_to(self, topic: str, broker_name: str, *, fresh: bool = False) -> BlockingLink:
        """To the first of its nodes that is there."""
        failures = []
        for address in self.addresses(topic, broker_name, fresh=fresh):
            try:
                return links_of(self.access).to(address)
            except Unreachable as error:
                failures.append(str(error))
        raise Unreachable(f"broker {broker_name}: {'; '.join(failures)}")

    def master_link(self, topic: str, broker_name: str, *, fresh: bool = False) -> BlockingLink:
        """To the only node that takes messages."""
        return links_of(self.access).to(self.master_address(topic, broker_name, fresh=fresh))

    def master_address(self, topic: str, broker_name: str, *, fresh: bool = False) -> str:
        """Of the only node that takes messages."""
        nodes = self.route(topic, fresh=fresh).brokers.get(broker_name, {})
        if MASTER_ID not in nodes:
            raise NoRoute(f"the master of broker {broker_name} of topic {topic} is not known")
        return nodes[MASTER_ID]

    def forget_routes(self) -> None:
        """They are asked for again."""
        self._routes.clear()

    # Queues

    def first(self, queue: MessageQueue) -> int:
        """The lowest offset whose message is still there."""
        return self._offset(RequestCode.GET_MIN_OFFSET, queue, _header(queue))

    def end(self, queue: MessageQueue) -> int:
        """The offset of the next message."""
        return self._offset(RequestCode.GET_MAX_OFFSET, queue, _header(queue))

    def ends(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
        """The same of many: all are asked before an answer is waited for."""
        found: dict[MessageQueue, int] = {}
        for start in range(0, len(queues), _TOGETHER_MAX):
            some = queues[start : start + _TOGETHER_MAX]
            try:
                found |= self._ends_together(some)
            except (Unreachable, NoRoute):  # one by one, each with its second chance
                found |= {queue: self.end(queue) for queue in some}
        return found

    def _ends_together(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
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

    def near(self, queue: MessageQueue, time_ms: int) -> int:
        """The offset of a message stored about that time: Apache's brokers give the nearest."""
        header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=time_ms)
        return self._offset(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue, header)

    def of_group(self, group: str, queue: MessageQueue) -> int | None:
        """What the group has consumed; None if it never did."""
        header = QueryOffsetHeader(consumer_group=group, topic=queue.topic, queue_id=queue.queue_id)
        try:
            return self._offset(RequestCode.QUERY_CONSUMER_OFFSET, queue, header)
        except Refused as refusal:
            if refusal.code == ResponseCode.QUERY_NOT_FOUND:
                return None
            raise

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Tell the brokers what the group has consumed."""
        for queue, offset in offsets.items():
            header = UpdateOffsetHeader(
                consumer_group=group,
                topic=queue.topic,
                queue_id=queue.queue_id,
                commit_offset=offset,
            )
            self.ask_master(queue, RequestCode.UPDATE_CONSUMER_OFFSET, header)

    def tell(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """The same for people to see: a queue that cannot be told just now is a warning.

        A broker that does not answer is not asked for its other queues.
        """
        away: set[str] = set()
        for queue, offset in offsets.items():
            if queue.broker_name in away:
                continue
            try:
                self.commit(group, {queue: offset})
            except (Unreachable, TimedOut) as error:
                away.add(queue.broker_name)
                log.warning("broker %s is not told of %s: %s", queue.broker_name, group, error)
            except (WorldError, PeerError) as error:
                log.warning("the offset of %s in %s is not told: %s", group, queue, error)

    def ask_master(
        self, queue: MessageQueue, code: RequestCode, header: Header | None, body: bytes = b""
    ) -> Command:
        """A request that must be granted; Refused if it is not."""
        try:
            link = self.master_link(queue.topic, queue.broker_name)
            response = link.ask(code, header, body)
        except (Unreachable, NoRoute):  # it may have moved, or only the connection was old
            link = self.master_link(queue.topic, queue.broker_name, fresh=True)
            response = link.ask(code, header, body)
        return link.granted(response)

    def _offset(self, code: RequestCode, queue: MessageQueue, header: Header) -> int:
        return read_header(self.ask_master(queue, code, header), OffsetReplyHeader).offset

    def _ask_name_server(self, code: RequestCode, header: Header | None = None) -> Command:
        failures = []
        for address in self.name_servers:
            for _ in range(2):  # a kept connection may be dead, a new one is not
                try:
                    return links_of(self.access).to(address).ask(code, header)
                except (Unreachable, TimedOut) as error:
                    failures.append(str(error))
        raise Unreachable(
            f"no name server answers ({'; '.join(dict.fromkeys(failures))}):"
            " is the option nameServer right?"
        )


def name_servers_of(text: str) -> tuple[str, ...]:
    """Of `host:port`s with semicolons or commas between them."""
    found = tuple(part.strip() for part in re.split("[;,]", text) if part.strip())
    for address in found:
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise BadSetting(f"option nameServer is {text!r}: host:port, or several with ;")
    if not found:
        raise BadSetting("option nameServer is empty: host:port, or several with ;")
    return found


def _header(queue: MessageQueue) -> QueueHeader:
    return QueueHeader(topic=queue.topic, queue_id=queue.queue_id)
