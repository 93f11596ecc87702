"""Sends many messages quickly and returns what it sent."""

import time
from collections.abc import Iterable, Sequence

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.headers.base import Header, read_header
from cometmq.protocol.headers.offset import OffsetReplyHeader, QueueHeader
from cometmq.protocol.headers.send import SendHeaderV2, SendReplyHeader
from cometmq.protocol.headers.topic import CreateTopicHeader
from cometmq.protocol.records.batch import pack_entries
from cometmq.protocol.records.properties import encode_properties
from cometmq.spark.read.link import Access, BlockingLink

QUEUED_S_MAX = 60
IDLE_S_MAX = 60  # brokers close connections that are idle for two minutes
Sent = tuple[int, bytes, dict[str, str]]  # queue, body, properties


class Sender:
    """A connection to a broker. It is reopened after a long idle time."""

    def __init__(self, broker_address: str) -> None:
        self._link = BlockingLink(broker_address, Access(timeout_ms=30_000))
        self._used_at = time.monotonic()
        self._count = 0

    def create(self, topic: str, queues: int = 4) -> None:
        self.ask(
            RequestCode.UPDATE_AND_CREATE_TOPIC,
            CreateTopicHeader(
                topic=topic, default_topic="TBW102", read_queue_nums=queues,
                write_queue_nums=queues, perm=6, topic_filter_type="SINGLE_TAG", order=False,
            ),
        )  # fmt: skip

    def ask(self, code: RequestCode, header: Header, body: bytes = b""):
        if time.monotonic() - self._used_at > IDLE_S_MAX:
            self._link.close()
            self._link = BlockingLink(self._link.address, Access(timeout_ms=30_000))
        self._used_at = time.monotonic()
        response = self._link.ask(code, header, body)
        assert response.code == 0, response.remark
        return response

    def batch(
        self, topic: str, queue: int, entries: Sequence[tuple[bytes, dict[str, str]]], size=500
    ) -> list[Sent]:
        """Send batches with unique keys and wait until the messages are readable."""
        sent = []
        end = 0
        for start in range(0, len(entries), size):
            packed = []
            for body, properties in entries[start : start + size]:
                self._count += 1
                mine = {"UNIQ_KEY": f"7F00000100AA00BB{self._count:016X}"} | properties
                packed.append((0, body, encode_properties(mine).encode()))
                sent.append((queue, body, mine))
            answer = self.ask(
                RequestCode.SEND_BATCH_MESSAGE,
                _header(SendHeaderV2, topic, queue, batch=True),
                pack_entries(packed),
            )
            end = read_header(answer, SendReplyHeader).queue_offset + len(packed)
        self._wait_for_end(topic, queue, end)
        return sent

    def _wait_for_end(self, topic: str, queue: int, end: int) -> None:
        """Wait for the dispatch to the queue: Apache's broker acknowledges before it."""
        deadline = time.monotonic() + QUEUED_S_MAX
        while self._end(topic, queue) < end:
            assert time.monotonic() < deadline, f"{topic} {queue} does not reach offset {end}"
            time.sleep(0.02)

    def _end(self, topic: str, queue: int) -> int:
        answer = self.ask(RequestCode.GET_MAX_OFFSET, QueueHeader(topic=topic, queue_id=queue))
        return read_header(answer, OffsetReplyHeader).offset

    def one(self, topic: str, queue: int, body: bytes, properties: str = "", sys_flag=0) -> int:
        """Send a message and return its queue offset."""
        header = _header(SendHeaderV2, topic, queue, sys_flag=sys_flag, properties=properties)
        return read_header(
            self.ask(RequestCode.SEND_MESSAGE_V2, header, body), SendReplyHeader
        ).queue_offset

    def close(self) -> None:
        self._link.close()


def _header(shape, topic, queue, *, sys_flag=0, properties="", batch=False):
    return shape(
        producer_group="senders", topic=topic, default_topic="TBW102",
        default_topic_queue_nums=4, queue_id=queue, sys_flag=sys_flag, born_timestamp=1_700_000,
        flag=0, properties=properties, reconsume_times=0, unit_mode=False,
        max_reconsume_times=None, batch=batch,
    )  # fmt: skip


def numbered(count: int, size: int = 128, first: int = 0) -> Iterable[tuple[bytes, dict[str, str]]]:
    """Yield bodies that begin with their number, with a tag, a key and a property."""
    for number in range(first, first + count):
        body = f"{number:010d}".encode().ljust(size, b".")
        yield body, {"TAGS": f"tag{number % 3}", "KEYS": f"k{number}", "n": str(number)}
