"""Sends messages, and measures response times of brokers."""

from collections.abc import AsyncIterator
from ipaddress import ip_address
from itertools import cycle, islice

from cometmq.admin.rows import NOT_DONE, Row, failed
from cometmq.admin.session import AdminSession
from cometmq.client.unique_id import UniqueKeys
from cometmq.errors import BadSetting, NoRoute, PeerError, WorldError
from cometmq.local_address import local_ip
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.route import MASTER_ID
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.flags import MessageFlag, Perm
from cometmq.protocol.headers.base import read_header
from cometmq.protocol.headers.send import SendHeaderV2, SendReplyHeader
from cometmq.protocol.names import DEFAULT_TOPIC, TRACE_TOPIC
from cometmq.protocol.records.message import StoredMessage
from cometmq.protocol.records.properties import KEYS, TAGS, UNIQ_KEY, encode_properties
from cometmq.protocol.refusal import refusal_of
from cometmq.protocol.trace import MessageKind, SentTrace, encode_trace

PRODUCER_GROUP = "TOOLS_PRODUCER"
_QUEUES = 4
# Codes for a stored message; with the last three it is less durable than configured.
_STORED = {
    ResponseCode.SUCCESS: "SEND_OK",
    ResponseCode.FLUSH_DISK_TIMEOUT: "FLUSH_DISK_TIMEOUT",
    ResponseCode.FLUSH_SLAVE_TIMEOUT: "FLUSH_SLAVE_TIMEOUT",
    ResponseCode.SLAVE_NOT_AVAILABLE: "SLAVE_NOT_AVAILABLE",
}


class Sent(Row, frozen=True):
    """The result of a send."""

    broker_name: str
    queue_id: int
    outcome: str
    msg_id: str | None = None
    queue_offset: int | None = None
    offset_msg_id: str | None = None
    rt_ms: int | None = None


class Probe(Row, frozen=True):
    """The result and response time of one send."""

    broker_name: str
    queue_id: int
    send_result: bool
    rt_ms: int | None
    outcome: str


class Probes(Row, frozen=True):
    """Several sends. The average omits the first, which opens the connection."""

    sends: list[Probe]
    avg_rt: float | None


class ClusterProbe(Row, frozen=True):
    """The average response time of a cluster."""

    cluster_name: str
    machine_room: str
    avg_rt: float | None
    success_count: int
    fail_count: int

    @property
    def is_failure(self) -> bool:
        """Did a send fail?"""
        return self.fail_count > 0


async def write_queues(admin: AdminSession, topic: str) -> list[MessageQueue]:
    """The writable queues of a topic; those of the default topic if it does not exist."""
    try:
        route = await admin.route(topic)
    except NoRoute:
        try:
            route = await admin.route(DEFAULT_TOPIC)
        except NoRoute:
            raise NoRoute(f"unknown topic {topic}: create it first") from None
    masters = {each.broker_name for each in route.broker_datas if MASTER_ID in each.broker_addrs}
    queues = sorted(
        MessageQueue(topic, each.broker_name, number)
        for each in route.queue_datas
        if each.perm & Perm.WRITE and each.broker_name in masters
        for number in range(each.write_queue_nums)
    )
    if not queues:
        raise NoRoute(f"topic {topic} has no writable queue: see topicRoute")
    return queues


class TestSender:
    """Sends single messages with unique ids to given queues."""

    def __init__(self, admin: AdminSession) -> None:
        self._admin = admin
        self.local_ip = local_ip()
        self._unique_key = UniqueKeys(ip_address(self.local_ip).packed, admin.clock)

    async def send(
        self,
        queue: MessageQueue,
        body: bytes,
        properties: dict[str, str] | None = None,
        *,
        sys_flag: int = 0,
        flag: int = 0,
    ) -> Sent:
        """Send once, without retries. A failure is in the outcome."""
        admin = self._admin
        if admin.config.dry_run:
            return Sent(queue.broker_name, queue.queue_id, NOT_DONE)
        own = {UNIQ_KEY: self._unique_key()} | (properties or {})
        header = SendHeaderV2(
            producer_group=PRODUCER_GROUP,
            topic=queue.topic,
            default_topic=DEFAULT_TOPIC,
            default_topic_queue_nums=_QUEUES,
            queue_id=queue.queue_id,
            sys_flag=sys_flag,
            born_timestamp=admin.clock.wall_ms(),
            flag=flag,
            properties=encode_properties(own),
        )
        begun_ms = admin.clock.monotonic_ms()
        try:
            address = await admin.master_named(queue.broker_name)
            answer = await admin.invoke(address, RequestCode.SEND_MESSAGE_V2, header, body)
            if answer.code not in _STORED:
                raise refusal_of(answer, address)
            reply = read_header(answer, SendReplyHeader)
        except (PeerError, WorldError) as error:
            spent_ms = admin.clock.monotonic_ms() - begun_ms
            return Sent(queue.broker_name, queue.queue_id, failed(error), rt_ms=spent_ms)
        return Sent(
            queue.broker_name,
            reply.queue_id,
            _STORED[ResponseCode(answer.code)],
            own[UNIQ_KEY],
            reply.queue_offset,
            reply.msg_id,
            admin.clock.monotonic_ms() - begun_ms,
        )


async def send(
    admin: AdminSession,
    *,
    topic: str,
    body: str,
    keys: str | None = None,
    tags: str | None = None,
    broker_name: str | None = None,
    queue_id: int | None = None,
    trace: bool = False,
) -> list[Sent]:
    """Send one message, optionally to a given broker or queue."""
    if not body:
        raise BadSetting("the body is empty; Java consumers cannot read such a message")
    if queue_id is not None and broker_name is None:
        raise BadSetting("-i needs a broker: give -b, too")
    queues = [
        queue
        for queue in await write_queues(admin, topic)
        if broker_name in (None, queue.broker_name) and queue_id in (None, queue.queue_id)
    ]
    if not queues:
        raise NoRoute(f"topic {topic} has no matching queue")
    properties = {name: value for name, value in ((KEYS, keys), (TAGS, tags)) if value is not None}
    sender = TestSender(admin)
    # The clock chooses among the queues, so that not all messages go to the first one.
    queue = queues[admin.clock.wall_ms() % len(queues)]
    sent = await sender.send(queue, body.encode(), properties)
    if trace and sent.msg_id is not None:
        await _trace(admin, sender, topic, sent, keys or "", tags or "", len(body.encode()))
    return [sent]


async def _trace(
    admin: AdminSession, sender: TestSender, topic: str, sent: Sent, keys: str, tags: str, size: int
) -> None:
    record = SentTrace(
        time_ms=admin.clock.wall_ms(),
        region_id="DefaultRegion",
        group=PRODUCER_GROUP,
        topic=topic,
        message_id=sent.msg_id or "",
        tags=tags,
        keys=keys,
        store_host=await admin.master_named(sent.broker_name),
        body_size=size,
        cost_ms=sent.rt_ms or 0,
        kind=MessageKind.NORMAL,
        offset_id=sent.offset_msg_id or "",
        success=True,
        client_host=sender.local_ip,
    )
    queues = await write_queues(admin, TRACE_TOPIC)
    words = " ".join(sorted(record.words))
    traced = await sender.send(queues[0], encode_trace(record).encode(), {KEYS: words})
    if traced.is_failure:
        raise BadSetting(f"the message was sent, but its trace was not: {traced.outcome}")


async def resend(admin: AdminSession, message: StoredMessage) -> Sent:
    """Send a copy of a message to its topic."""
    queues = await write_queues(admin, message.topic)
    same = [each for each in queues if each.queue_id == message.queue_id]
    kept = int(MessageFlag.COMPRESSED | MessageFlag.COMPRESSION)
    return await TestSender(admin).send(
        (same or queues)[0],
        message.body,
        message.properties,
        sys_flag=message.sys_flag & kept,
        flag=message.flag,
    )


async def probe_topic(
    admin: AdminSession, *, topic: str, amount: int = 100, size: int = 128
) -> Probes:
    """Measure sends to the queues of a topic, round-robin."""
    sender = TestSender(admin)
    queues = await write_queues(admin, topic)
    sends = []
    for queue in islice(cycle(queues), 1 if admin.config.dry_run else amount):
        sent = await sender.send(queue, b"a" * size)
        is_stored = sent.msg_id is not None
        sends.append(Probe(sent.broker_name, sent.queue_id, is_stored, sent.rt_ms, sent.outcome))
    times = [each.rt_ms for each in sends[1:] if each.send_result and each.rt_ms is not None]
    return Probes(sends, sum(times) / len(times) if times else None)


async def probe_broker(
    admin: AdminSession, *, broker_name: str, size: int = 128, count: int = 50
) -> list[Sent]:
    """Measure sends to the topic that has the name of the broker."""
    await admin.master_named(broker_name)
    sender = TestSender(admin)
    queues = [
        queue
        for queue in await write_queues(admin, broker_name)
        if queue.broker_name == broker_name
    ]
    if not queues:
        raise NoRoute(f"topic {broker_name} has no writable queue at broker {broker_name}")
    chosen = [queues[0]] if admin.config.dry_run else islice(cycle(queues), count)
    return [await sender.send(queue, b"a" * size) for queue in chosen]


async def probe_clusters(
    admin: AdminSession,
    *,
    amount: int = 100,
    size: int = 128,
    cluster: str | None = None,
    as_log: bool = False,
    room: str = "noname",
    interval_s: int | None = None,
    rounds: int | None = None,
) -> AsyncIterator[list[ClusterProbe]]:
    """Measure sends to the topic that has the name of each cluster."""
    known = sorted((await admin.cluster()).cluster_addr_table)
    if cluster and cluster not in known:
        raise NoRoute(f"unknown cluster {cluster}; known clusters: {', '.join(known)}")
    async for _ in admin.rounds(None if admin.config.dry_run else interval_s, rounds):
        rows = []
        for name in [cluster] if cluster else known:
            probes = await probe_topic(admin, topic=name, amount=amount, size=size)
            stored = sum(each.send_result for each in probes.sends)
            fails = sum(each.is_failure for each in probes.sends)
            rows.append(ClusterProbe(name, room, probes.avg_rt, stored, fails))
        yield rows
