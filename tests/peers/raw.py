"""A client of our own on bare requests: quick to start; it hides nothing and retries nothing."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.flags import Perm, PullFlag
from cometmq.protocol.headers.base import Header, read_header
from cometmq.protocol.headers.offset import (
    OffsetReplyHeader,
    QueryOffsetHeader,
    QueueHeader,
    UpdateOffsetHeader,
)
from cometmq.protocol.headers.pull import PullHeader, PullReplyHeader
from cometmq.protocol.headers.send import SendHeaderV2, SendReplyHeader
from cometmq.protocol.headers.topic import CreateTopicHeader
from cometmq.protocol.records.message import StoredMessage, unpack_records
from cometmq.protocol.records.properties import encode_properties
from cometmq.remoting.dispatch import Dispatcher
from cometmq.remoting.lanes import Lanes
from cometmq.remoting.pool import Pool
from cometmq.seams import RealClock, RealNet

GROUP = "raw"
_TIMEOUT_MS = 30_000
_ARRIVAL_S_MAX = 60


class NotAnswered(Exception):
    """The broker answered with another code than success."""


@dataclass(frozen=True)
class Sent:
    """Where a message was put, as the broker told."""

    queue_id: int
    offset: int
    physical: int
    offset_id: str


class RawClient:
    """Talks to one broker; a context manager."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._pool = Pool(RealClock(), RealNet(), Dispatcher({}, Lanes(0)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._pool.close()

    async def ask(self, code: int, header: Header, body: bytes = b"") -> Command:
        """The answer, if it is a success."""
        answer = await self.ask_any(code, header, body)
        if answer.code != ResponseCode.SUCCESS:
            raise NotAnswered(f"{answer.code} {answer.remark}")
        return answer

    async def ask_any(self, code: int, header: Header, body: bytes = b"") -> Command:
        """The answer, whatever its code."""
        return await self._pool.invoke(self._address, code, header, body, timeout_ms=_TIMEOUT_MS)

    async def make_topic(self, topic: str, queues: int) -> None:
        """Create it, readable and writable."""
        header = CreateTopicHeader(
            topic=topic, default_topic="TBW102", read_queue_nums=queues, write_queue_nums=queues,
            perm=int(Perm.READ | Perm.WRITE), topic_filter_type="SINGLE_TAG", topic_sys_flag=0,
            order=False,
        )  # fmt: skip
        await self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header)

    async def send(
        self,
        topic: str,
        queue_id: int,
        body: bytes,
        properties: Mapping[str, str] | None = None,
        sys_flag: int = 0,
    ) -> Sent:
        """One message, one try."""
        header = SendHeaderV2(
            producer_group=GROUP, topic=topic, default_topic="TBW102", default_topic_queue_nums=4,
            queue_id=queue_id, sys_flag=sys_flag, born_timestamp=RealClock().wall_ms(), flag=0,
            properties=encode_properties(properties or {}),
        )  # fmt: skip
        answer = await self.ask(RequestCode.SEND_MESSAGE_V2, header, body)
        reply = read_header(answer, SendReplyHeader)
        # An offset id ends with the place in the log, 16 hex digits.
        physical = int(reply.msg_id[-16:], 16)
        return Sent(reply.queue_id, reply.queue_offset, physical, reply.msg_id)

    async def max_offset(self, topic: str, queue_id: int) -> int:
        """Where the next message of the queue will be."""
        header = QueueHeader(topic=topic, queue_id=queue_id)
        answer = await self.ask(RequestCode.GET_MAX_OFFSET, header)
        return read_header(answer, OffsetReplyHeader).offset

    async def until_end(self, topic: str, queue_id: int, end: int) -> None:
        """Apache's broker stores a message first, and puts it into its queue a moment later."""
        async with asyncio.timeout(_ARRIVAL_S_MAX):
            while await self.max_offset(topic, queue_id) < end:
                await asyncio.sleep(0.02)

    async def commit_offset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """The group has consumed what comes before the offset."""
        header = UpdateOffsetHeader(
            consumer_group=group, topic=topic, queue_id=queue_id, commit_offset=offset
        )
        await self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header)

    async def consumed(self, group: str, topic: str, queue_id: int) -> int:
        """The offset that the group has committed."""
        header = QueryOffsetHeader(consumer_group=group, topic=topic, queue_id=queue_id)
        answer = await self.ask(RequestCode.QUERY_CONSUMER_OFFSET, header)
        return read_header(answer, OffsetReplyHeader).offset

    async def read(self, topic: str, queue_id: int) -> list[StoredMessage]:
        """Every message of a queue, from its first on."""
        found: list[StoredMessage] = []
        offset, end = 0, await self.max_offset(topic, queue_id)
        while offset < end:
            header = PullHeader(
                consumer_group=GROUP, topic=topic, queue_id=queue_id, queue_offset=offset,
                max_msg_nums=32, sys_flag=int(PullFlag.SUBSCRIPTION), commit_offset=0,
                suspend_timeout_millis=0, subscription="*", sub_version=0, expression_type="TAG",
            )  # fmt: skip
            answer = await self.ask(RequestCode.PULL_MESSAGE, header)
            found += unpack_records(answer.body)
            reply = read_header(answer, PullReplyHeader)
            assert reply.next_begin_offset > offset
            offset = reply.next_begin_offset
        return found
