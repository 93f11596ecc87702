"""Finds messages by id, key or offset; shows them, or has a consumer consume them."""

from cometmq.admin import topic as topics
from cometmq.admin.messages.message_track import Track, track
from cometmq.admin.messages.reading import at_offset, body_text
from cometmq.admin.rows import NOT_DONE, Row, Time
from cometmq.admin.session import AdminSession
from cometmq.errors import NoRoute, Refused
from cometmq.protocol.bodies.consumer import DirectConsumption
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.headers.consumer import ConsumeDirectlyHeader
from cometmq.protocol.headers.query import QueryMessageHeader, ViewMessageHeader
from cometmq.protocol.java.fastjson import loads
from cometmq.protocol.records.message import StoredMessage, unpack_record, unpack_records
from cometmq.protocol.records.message_id import OffsetId
from cometmq.protocol.records.properties import KEYS, TAGS, UNIQ_KEY

_FOUND_MAX = 64  # messages of one key per broker
_END_OF_TIME = 2**63 - 1
_DIRECTLY_MS = 12_000  # a broker waits ten seconds for the consumer


class MessageDetail(Row, frozen=True):
    """A message with all of its fields."""

    layout = "block"
    offset_id: str
    message_id: str
    topic: str
    tags: list[str]
    keys: list[str]
    queue_id: int
    queue_offset: int
    commitlog_offset: int
    reconsume_times: int
    born_timestamp: Time
    store_timestamp: Time
    born_host: str
    store_host: str
    system_flag: int
    properties: dict[str, str]
    body: str
    tracks: list[Track]


class Place(Row, frozen=True):
    """The queue and offset of a message."""

    message_id: str
    queue_id: int
    offset: int
    broker_name: str


class Direct(Row, frozen=True):
    """The result of a listener for a message that was sent to it directly."""

    message_id: str
    client_id: str
    consume_result: str | None
    order: bool | None = None
    auto_commit: bool | None = None
    spent_ms: int | None = None
    remark: str | None = None


async def by_offset_id(admin: AdminSession, message_id: str) -> StoredMessage:
    """The message at the broker and offset that the id contains."""
    place = OffsetId.parse(message_id)
    header = ViewMessageHeader(offset=place.physical_offset)
    answer = await admin.ask(address_in(place), RequestCode.VIEW_MESSAGE_BY_ID, header)
    return unpack_record(answer.body)


def address_in(place: OffsetId) -> str:
    """The broker address in an offset id."""
    host, port = place.host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def show_by_id(
    admin: AdminSession,
    *,
    message_id: str,
    group: str | None = None,
    client_id: str | None = None,
    resend: bool = False,
    unit: str | None = None,
) -> list[Row]:
    """Show messages by their offset ids, have a consumer consume them, or send them again."""
    shown: list[Row] = []
    for each in message_id.replace(",", " ").split():
        if group and client_id:
            shown.append(await consume_directly(admin, each, group, client_id))
            continue
        message = await by_offset_id(admin, each)
        if resend:
            from cometmq.admin.messages import sending

            shown.append(await sending.resend(admin, message))
        else:
            shown.append(await detail(admin, message))
    return shown


async def consume_directly(
    admin: AdminSession, message_id: str, group: str, client_id: str
) -> Direct:
    """Have one client consume a message, regardless of its offsets."""
    address = address_in(OffsetId.parse(message_id))
    if admin.config.dry_run:
        return Direct(message_id, client_id, NOT_DONE)
    header = ConsumeDirectlyHeader(consumer_group=group, client_id=client_id, msg_id=message_id)
    answer = await admin.ask(
        address, RequestCode.CONSUME_MESSAGE_DIRECTLY, header, timeout_ms=_DIRECTLY_MS
    )
    found = loads(answer.body, DirectConsumption)
    return Direct(
        message_id,
        client_id,
        found.consume_result and found.consume_result.value,
        found.order,
        found.auto_commit,
        found.spent_time_mills,
        found.remark,
    )


async def query(
    admin: AdminSession,
    topic: str,
    key: str,
    *,
    by_unique_key: bool = False,
    count: int = _FOUND_MAX,
) -> list[tuple[str, StoredMessage]]:
    """The messages with a key and their brokers' names, oldest first."""
    header = QueryMessageHeader(
        topic=topic,
        key=key,
        max_num=count,
        begin_timestamp=0,
        end_timestamp=_END_OF_TIME,
        unique_key_query=by_unique_key,
    )

    async def one(address: str) -> list[tuple[str, StoredMessage]]:
        try:
            answer = await admin.ask(address, RequestCode.QUERY_MESSAGE, header)
        except Refused as refused:
            if refused.code != ResponseCode.QUERY_NOT_FOUND:
                raise
            return []
        name = await admin.name_at(address)
        return [(name, message) for message in unpack_records(answer.body)]

    answers = await admin.all(map(one, await topics.masters_of(admin, topic)))
    found = [
        (name, message)
        for answer in answers
        for name, message in answer
        if _has_key(message, key, by_unique_key)
    ]
    if not found:
        raise Refused(ResponseCode.NO_MESSAGE, f"topic {topic} has no message with the key {key}")
    return sorted(found, key=lambda each: (each[1].stored_ms, each[0], each[1].physical_offset))


def _has_key(message: StoredMessage, key: str, by_unique_key: bool) -> bool:
    """Does the message have the key? The index stores hashes, which may collide."""
    properties = message.properties
    if by_unique_key:
        return properties.get(UNIQ_KEY) == key
    return key in properties.get(KEYS, "").split() or properties.get(UNIQ_KEY) == key


async def show_by_key(admin: AdminSession, *, topic: str, key: str) -> list[Place]:
    """The queues and offsets of the messages with a key."""
    return [
        Place(id_of(message), message.queue_id, message.queue_offset, name)
        for name, message in await query(admin, topic, key)
    ]


async def show_by_unique_key(
    admin: AdminSession,
    *,
    topic: str,
    message_id: str,
    group: str | None = None,
    client_id: str | None = None,
    every: bool = False,
) -> list[Row]:
    """Show a message by its unique id, or have a consumer consume it."""
    found = await query(admin, topic, message_id, by_unique_key=True)
    chosen = found if every else found[:1]
    if group and client_id:
        return [
            await consume_directly(admin, offset_id_of(message), group, client_id)
            for _, message in chosen
        ]
    return [await detail(admin, message, name) for name, message in chosen]


async def show_by_offset(
    admin: AdminSession, *, topic: str, broker_name: str, queue_id: int, offset: int
) -> MessageDetail:
    """The message at an offset of a queue."""
    queue = MessageQueue(topic, broker_name, queue_id)
    return await detail(admin, await at_offset(admin, queue, offset), broker_name)


async def detail(
    admin: AdminSession, message: StoredMessage, broker_name: str | None = None
) -> MessageDetail:
    """A message with all fields, and its state in each consumer group."""
    properties = message.properties
    queue = None
    if broker_name or (broker_name := await _holder(admin, message)):
        queue = MessageQueue(message.topic, broker_name, message.queue_id)
    groups = await topics.groups_of(admin, message.topic)
    return MessageDetail(
        offset_id_of(message),
        id_of(message),
        message.topic,
        _words(properties.get(TAGS)),
        _words(properties.get(KEYS)),
        message.queue_id,
        message.queue_offset,
        message.physical_offset,
        message.reconsume_times,
        Time(message.born_ms),
        Time(message.stored_ms),
        str(message.born_host),
        str(message.store_host),
        message.sys_flag,
        properties,
        body_text(message),
        await admin.all(track(admin, message, queue, group) for group in groups),
    )


def id_of(message: StoredMessage) -> str:
    """The unique id of a message, or its offset id if it has none."""
    return message.properties.get(UNIQ_KEY) or offset_id_of(message)


def offset_id_of(message: StoredMessage) -> str:
    """The offset id of a message: store host and physical offset."""
    return str(OffsetId(message.store_host, message.physical_offset))


def _words(text: str | None) -> list[str]:
    return (text or "").split()


async def _holder(admin: AdminSession, message: StoredMessage) -> str | None:
    """The broker that stores a message, by the address in its record; None if unregistered."""
    try:
        return await admin.name_at(str(message.store_host))
    except NoRoute:
        return None
