"""Queries that all clients offer; names are without the namespace."""

import asyncio
from collections.abc import Callable
from datetime import datetime

from cometmq.client.durations import moment_ms
from cometmq.client.message import ReceivedMessage
from cometmq.client.session.connections import OnConnection
from cometmq.client.session.queries import Queries
from cometmq.client.session.session import Session
from cometmq.errors import BadMessage, BadName, Malformed, NoRoute
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.route import MASTER_ID
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.flags import Perm
from cometmq.protocol.headers.query import QueryMessageHeader, ViewMessageHeader
from cometmq.protocol.headers.topic import CreateTopicHeader
from cometmq.protocol.names import DEFAULT_TOPIC, check_topic, with_namespace
from cometmq.protocol.records.message import unpack_record, unpack_records
from cometmq.protocol.records.message_id import OffsetId
from cometmq.protocol.refusal import refusal_of

_MS_MAX = 2**63 - 1
_FOUND_MAX = 32  # messages per broker that a query returns by default


class Asker:
    """Base of the clients: queues, offsets, topics and single messages."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._queries = Queries(session)

    def on_connection(self, callback: OnConnection) -> Callable[[], None]:
        """Call `callback` when a broker or name server is connected, disconnected or reconnected.

        See `Session.on_connection`. Clients that share a session report the same events.
        """
        return self._session.on_connection(callback)

    # Queues

    async def fetch_publish_queues(self, topic: str) -> list[MessageQueue]:
        """Fetch the writable queues of a topic from the name servers."""
        route = await self._session.routes.fetch(self._wire_topic(topic))
        return [_bare(topic, each) for each in route.to_write]

    async def fetch_subscribe_queues(self, topic: str) -> list[MessageQueue]:
        """Fetch the readable queues of a topic from the name servers."""
        route = await self._session.routes.fetch(self._wire_topic(topic))
        return [_bare(topic, each) for each in route.to_read]

    async def max_offset(self, queue: MessageQueue) -> int:
        """Return the offset that the next message of the queue gets."""
        return await self._queries.max_offset(self._wire_queue(queue))

    async def min_offset(self, queue: MessageQueue) -> int:
        """Return the lowest offset whose message still exists."""
        return await self._queries.min_offset(self._wire_queue(queue))

    async def search_offset(self, queue: MessageQueue, when: int | datetime) -> int:
        """Return the offset of the message whose store time is nearest to `when`.

        Of two equally near messages it is the earlier one. A time after the last message yields the
        last message, not the end of the queue. An empty queue yields 0.

        Args:
            queue: The queue to search.
            when: A datetime (local time if it has no zone), or milliseconds since 1970.
        """
        return await self._queries.offset_at(self._wire_queue(queue), moment_ms(when))

    async def earliest_stored_ms(self, queue: MessageQueue) -> int:
        """Return when the oldest message was stored, in ms since 1970; -1 for an empty queue."""
        return await self._queries.earliest_stored_ms(self._wire_queue(queue))

    async def create_topic(
        self, topic: str, queues: int = 4, *, like: str = DEFAULT_TOPIC, perm: Perm | None = None
    ) -> None:
        """Create or update the topic on every master that serves the topic `like`.

        Args:
            topic: The name of the topic.
            queues: Readable and writable queues per broker.
            like: The topic whose brokers are used; by default all that create topics.
            perm: Permissions; by default read and write.

        Raises:
            NoRoute: No master serves `like`.
        """
        wire_topic = self._wire_topic(topic)
        session = self._session
        route = await session.routes.fetch(like)
        header = CreateTopicHeader(
            topic=wire_topic,
            default_topic=like,
            read_queue_nums=queues,
            write_queue_nums=queues,
            perm=int(Perm.READ | Perm.WRITE if perm is None else perm),
            topic_filter_type="SINGLE_TAG",
            topic_sys_flag=0,
            order=False,
        )
        names = [name for name, nodes in route.brokers.items() if MASTER_ID in nodes]
        if not names:
            raise NoRoute(f"no master serves topic {like}: check that its broker is running")
        for name in names:
            await session.ask(session.master_of(name), RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    # Messages

    async def view_message(self, offset_id: str) -> ReceivedMessage:
        """Return the message with an offset id. Raises Refused if it does not exist."""
        try:
            place = OffsetId.parse(offset_id)
        except Malformed as error:
            raise BadMessage(f"{offset_id!r} is not an offset id: {error}") from error
        session = self._session
        told = str(place.host)
        address = session.config.address_map.get(told, told)
        response = await session.ask(
            address, RequestCode.VIEW_MESSAGE_BY_ID, ViewMessageHeader(offset=place.physical_offset)
        )
        names = (
            name for name, nodes in session.routes.brokers.items() if address in nodes.values()
        )
        return ReceivedMessage.of(
            unpack_record(response.body), next(names, ""), session.config.namespace
        )

    async def query_message(
        self,
        topic: str,
        key: str,
        begin: int | datetime = 0,
        end: int | datetime = _MS_MAX,
        *,
        count_max: int = _FOUND_MAX,
        unique: bool = False,
    ) -> list[ReceivedMessage]:
        """Return the messages with a key from all brokers.

        Args:
            topic: The topic of the messages.
            key: A business key; with `unique`, the unique key of a message.
            begin: Earliest store time, a datetime or milliseconds since 1970.
            end: Latest store time.
            count_max: Messages that each broker may return.
            unique: Searches for the unique key instead of business keys.
        """
        route = await self._session.routes.of(self._wire_topic(topic))
        header = QueryMessageHeader(
            topic=route.topic,
            key=key,
            max_num=count_max,
            begin_timestamp=moment_ms(begin),
            end_timestamp=moment_ms(end),
            unique_key_query=unique,
        )
        found = await asyncio.gather(*(self._query(name, header) for name in route.brokers))
        # Brokers compare hashes of keys; other keys may have the same hash.
        return sorted(
            (
                each
                for of_broker in found
                for each in of_broker
                if each.record.topic == route.topic
                and (each.message_id == key if unique else key in each.keys)
            ),
            key=lambda each: each.stored_ms,
        )

    async def _query(self, broker: str, header: QueryMessageHeader) -> list[ReceivedMessage]:
        session = self._session
        address = session.routes.any_address_of(broker)
        if address is None:
            return []  # the name servers know no node of it
        response = await session.pool.invoke(
            address, RequestCode.QUERY_MESSAGE, header, timeout_ms=session.api_timeout_ms
        )
        if response.code == ResponseCode.QUERY_NOT_FOUND:
            return []
        if response.code != ResponseCode.SUCCESS:
            raise refusal_of(response, f"broker {address}")
        namespace = session.config.namespace
        return [
            ReceivedMessage.of(each, broker, namespace) for each in unpack_records(response.body)
        ]

    # Names

    def _wire_topic(self, topic: str) -> str:
        self._session.check_open()
        try:
            check_topic(topic)
        except BadName as error:
            raise BadMessage(f"{topic!r} cannot be a topic: {error}") from error
        return with_namespace(self._session.config.namespace, topic)

    def _wire_queue(self, queue: MessageQueue) -> MessageQueue:
        return MessageQueue(self._wire_topic(queue.topic), queue.broker_name, queue.queue_id)


def _bare(topic: str, queue: MessageQueue) -> MessageQueue:
    return MessageQueue(topic, queue.broker_name, queue.queue_id)
