"""Reads messages from queues, to print or count them."""

from base64 import b64encode
from collections.abc import AsyncIterator

from cometmq.admin.command_line.arguments import NOW
from cometmq.admin.rows import Row, Time
from cometmq.admin.session import AdminSession
from cometmq.errors import BadSetting, Malformed, NoRoute, Refused
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.filter.tags import ALL, TAG, wanted_tags
from cometmq.protocol.flags import MessageFlag, Perm, PullFlag
from cometmq.protocol.headers.base import read_header
from cometmq.protocol.headers.offset import OffsetReplyHeader, QueueHeader, SearchOffsetHeader
from cometmq.protocol.headers.pull import PullHeader, PullReplyHeader
from cometmq.protocol.limits import BODY_INFLATED_SIZE_MAX
from cometmq.protocol.records.compression import decompress
from cometmq.protocol.records.message import StoredMessage, unpack_records
from cometmq.protocol.records.properties import KEYS, TAGS, UNIQ_KEY
from cometmq.protocol.refusal import refusal_of

GROUP = "TOOLS_CONSUMER"  # a consumer group that is built into brokers
_BATCH = 32
_NOTHING_THERE = {
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
}


class Printed(Row, frozen=True):
    """A message, printed as one line."""

    layout = "line"
    msgid: str
    broker_name: str
    queue_id: int
    queue_offset: int
    stored: Time
    tags: str | None
    keys: str | None
    properties: dict[str, str]
    body: str | None


class TagCount(Row, frozen=True):
    """The number of messages with a tag."""

    tag: str
    count: int


def body_text(message: StoredMessage, charset: str = "utf-8") -> str:
    """Return the body as text, or as `base64:...` if it cannot be decoded."""
    body = message.body
    if message.sys_flag & MessageFlag.COMPRESSED:
        body = decompress(body, message.sys_flag, BODY_INFLATED_SIZE_MAX)
    try:
        return body.decode(charset)
    except UnicodeDecodeError:
        return f"base64:{b64encode(body).decode()}"


async def read_queues(admin: AdminSession, topic: str) -> list[MessageQueue]:
    """The readable queues of a topic."""
    route = await admin.route(topic)
    return sorted(
        MessageQueue(topic, each.broker_name, number)
        for each in route.queue_datas
        if each.perm & Perm.READ
        for number in range(each.read_queue_nums)
    )


async def pull(
    admin: AdminSession, queue: MessageQueue, offset: int, count: int, expression: str, group: str
) -> tuple[list[StoredMessage], PullReplyHeader]:
    """Pull messages from an offset; the returned header has the offset of the next pull."""
    header = PullHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=offset,
        max_msg_nums=count,
        sys_flag=int(PullFlag.SUBSCRIPTION),
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription=expression,
        sub_version=admin.clock.wall_ms(),
        expression_type=TAG,
    )
    address = await admin.master_named(queue.broker_name)
    answer = await admin.invoke(address, RequestCode.PULL_MESSAGE, header)
    if answer.code != ResponseCode.SUCCESS and answer.code not in _NOTHING_THERE:
        raise refusal_of(answer, address)
    found = list(unpack_records(answer.body)) if answer.code == ResponseCode.SUCCESS else []
    return found, read_header(answer, PullReplyHeader)


async def at_offset(admin: AdminSession, queue: MessageQueue, offset: int) -> StoredMessage:
    """Return the message at an offset of a queue. Raises Refused if it is missing."""
    found, where = await pull(admin, queue, offset, 1, ALL, GROUP)
    if not found or found[0].queue_offset != offset:
        raise Refused(
            ResponseCode.NO_MESSAGE,
            f"queue {queue.queue_id} of {queue.topic} at {queue.broker_name} has no message at"
            f" offset {offset} (min offset {where.min_offset}, max offset {where.max_offset})",
        )
    return found[0]


async def bounds(
    admin: AdminSession, queue: MessageQueue, begin_ms: int | None, end_ms: int | None
) -> tuple[int, int]:
    """Return the offset range between two times, with an exclusive end. None means no bound."""
    address = await admin.master_named(queue.broker_name)

    async def end_of(code: RequestCode, time_ms: int | None) -> int:
        header: QueueHeader | SearchOffsetHeader
        if time_ms is None or time_ms == NOW:
            code = RequestCode.GET_MAX_OFFSET if time_ms == NOW else code
            header = QueueHeader(topic=queue.topic, queue_id=queue.queue_id)
        else:
            code = RequestCode.SEARCH_OFFSET_BY_TIMESTAMP
            header = SearchOffsetHeader(
                topic=queue.topic, queue_id=queue.queue_id, timestamp=time_ms
            )
        return read_header(await admin.ask(address, code, header), OffsetReplyHeader).offset

    low = await end_of(RequestCode.GET_MIN_OFFSET, begin_ms)
    high = await end_of(RequestCode.GET_MAX_OFFSET, end_ms)
    return low, high


async def messages(
    admin: AdminSession,
    queue: MessageQueue,
    low: int,
    high: int,
    *,
    expression: str = ALL,
    group: str = GROUP,
) -> AsyncIterator[StoredMessage]:
    """Yield the messages of an offset range that match the tag expression."""
    tags = wanted_tags(expression)
    while low < high:
        found, where = await pull(admin, queue, low, min(_BATCH, high - low), expression, group)
        for message in found:
            if message.queue_offset >= high:
                return
            # The broker compares only hashes of tags, which may collide.
            if tags is None or message.properties.get(TAGS) in tags:
                yield message
        if where.next_begin_offset <= low:
            return  # the queue ends before the range does
        low = where.next_begin_offset


async def show_topic(
    admin: AdminSession,
    *,
    topic: str,
    charset: str = "utf-8",
    expression: str = ALL,
    begin_ms: int | None = None,
    end_ms: int | None = None,
    with_body: bool = True,
) -> AsyncIterator[Printed]:
    """Yield the messages of a topic, queue by queue."""
    _check_charset(charset)
    for queue in await read_queues(admin, topic):
        low, high = await bounds(admin, queue, begin_ms, end_ms)
        async for message in messages(admin, queue, low, high, expression=expression):
            yield _printed(queue, message, charset if with_body else None)


async def show_queue(
    admin: AdminSession,
    *,
    topic: str,
    broker_name: str,
    queue_id: int,
    charset: str = "utf-8",
    expression: str = ALL,
    begin_ms: int | None = None,
    end_ms: int | None = None,
    with_messages: bool = False,
    with_body: bool = False,
    by_tag: bool = False,
) -> AsyncIterator[Printed | list[TagCount]]:
    """Yield the messages of one queue, or the number of messages per tag, or both."""
    _check_charset(charset)
    queue = MessageQueue(topic, broker_name, queue_id)
    low, high = await bounds(admin, queue, begin_ms, end_ms)
    counts: dict[str, int] = {}
    async for message in messages(admin, queue, low, high, expression=expression):
        if by_tag:
            tag = message.properties.get(TAGS)
            if tag is not None:
                counts[tag] = counts.get(tag, 0) + 1
        if with_messages:
            yield _printed(queue, message, charset if with_body else None)
    if by_tag:
        ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
        yield [TagCount(tag, count) for tag, count in ordered]


async def consume(
    admin: AdminSession,
    *,
    topic: str,
    broker_name: str | None = None,
    queue_id: int | None = None,
    offset: int | None = None,
    group: str = GROUP,
    begin_ms: int | None = None,
    end_ms: int | None = None,
    count: int = 128,
) -> AsyncIterator[Printed]:
    """Yield the first messages of a topic or of a queue, without committing offsets."""
    queues = [
        queue
        for queue in await read_queues(admin, topic)
        if broker_name in (None, queue.broker_name) and queue_id in (None, queue.queue_id)
    ]
    if not queues:
        raise NoRoute(f"topic {topic} has no matching queue")
    if offset is not None and (broker_name is None or queue_id is None):
        raise BadSetting("-o needs a queue: give -b and -i, too")
    left = count
    for queue in queues:
        low, high = await bounds(admin, queue, begin_ms, end_ms)
        if offset is not None:
            low = max(low, offset)
        async for message in messages(admin, queue, low, high, group=group):
            if left <= 0:
                return
            left -= 1
            yield _printed(queue, message, "utf-8")


def _check_charset(charset: str) -> None:
    try:
        b"".decode(charset)
    except LookupError as error:
        raise BadSetting(f"unknown character set {charset}") from error


def _printed(queue: MessageQueue, message: StoredMessage, charset: str | None) -> Printed:
    properties = message.properties
    try:
        body = body_text(message, charset) if charset else None
    except Malformed as error:
        body = f"({error})"
    return Printed(
        properties.get(UNIQ_KEY, ""),
        queue.broker_name,
        queue.queue_id,
        message.queue_offset,
        Time(message.stored_ms),
        properties.get(TAGS),
        properties.get(KEYS),
        properties,
        body,
    )
