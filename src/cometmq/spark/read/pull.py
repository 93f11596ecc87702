"""Reads a range of a queue from its broker.

A stock broker returns at most 32 messages per pull. To avoid one round trip per pull, several pulls
are in flight: while all responses are full, the start of the next pull is known. A response that is
not full breaks this assumption; the pulls in flight are then dropped and sent again.
"""

import logging
import time
from collections import deque
from collections.abc import Iterator

from cometmq.errors import NoRoute, TimedOut, Unreachable, WorldError
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.headers.base import read_header
from cometmq.protocol.headers.pull import PullReplyHeader
from cometmq.protocol.refusal import refusal_of
from cometmq.spark.files.frames import records_of_pull
from cometmq.spark.read.decode import Records
from cometmq.spark.read.link import BUSY_CODES, BlockingLink
from cometmq.spark.read.offsets import Range
from cometmq.spark.read.reading import Reading

log = logging.getLogger(__name__)

_AHEAD_MESSAGES = 1024
_AHEAD_MAX = 16
_DECODE_SIZE = 3 << 20  # bytes of responses that are decoded together: some 10 000 messages
_PAUSE_S = 0.2  # between attempts to reach a broker

PULL_CODES = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


class DataLost(WorldError):
    """Messages in the requested range no longer exist or are damaged."""


class RangePull:
    """Reads one range once. Waits for a broker that is unreachable for a while."""

    def __init__(self, reading: Reading, wanted: Range) -> None:
        self._reading = reading
        self._range = wanted
        self._at = wanted.start
        self._stride = 0  # messages of a full response; 0: unknown
        self._asked: deque[tuple[int, int]] = deque()  # offset and opaque of pulls in flight
        self._unreachable_since: float | None = None
        self.lost = 0  # offsets that were skipped

    def records(self) -> Iterator[Records]:
        """Yield the records in order, about 3 MiB at a time."""
        gathered: list[bytes] = []
        size = span = 0
        for body, count in self._bodies():
            gathered.append(body)
            size += len(body)
            span += count
            if size >= _DECODE_SIZE:
                yield self._decoded(gathered, span)
                gathered, size, span = [], 0, 0
        if gathered:
            yield self._decoded(gathered, span)

    def _decoded(self, bodies: list[bytes], span: int) -> Records:
        found = records_of_pull(bodies[0] if len(bodies) == 1 else b"".join(bodies))
        if len(found) < span and not self._reading.is_filtered:
            self._report_gap(found, span - len(found))
        offsets = found.queue_offsets
        return found.where((offsets >= self._range.start) & (offsets < self._range.end))

    def _report_gap(self, found: Records, count: int) -> None:
        """Handle messages that are missing among others: their records are damaged or deleted."""
        offsets = found.queue_offsets
        around = f"between {offsets[0]} and {offsets[-1]} of {self._range}"
        if self._reading.fail_on_data_loss:
            raise DataLost(
                f"{count} messages {around} are missing; see the broker's log for the reason."
                " Set the option failOnDataLoss=false to skip them"
            )
        log.warning("skipped %d missing messages %s", count, around)
        self.lost += count

    def _bodies(self) -> Iterator[tuple[bytes, int]]:
        """Yield the bodies of responses, each with the number of offsets that it covers."""
        link = None
        try:
            while self._at < self._range.end:
                begun = self._at
                try:
                    link = self._link()
                    response = self._next_response(link)
                    body = self._accept(response, link)
                except (Unreachable, TimedOut, NoRoute) as error:
                    self._wait_for_broker(error)
                    continue
                self._unreachable_since = None
                if body:
                    yield body, self._at - begun
        finally:  # a reader may stop early, and the connection is reused
            if link is not None:
                self._drop_pulls(link)

    def _link(self) -> BlockingLink:
        queue = self._range.queue
        return self._reading.cluster.link_to(
            queue.topic, queue.broker_name, fresh=self._unreachable_since is not None
        )

    def _next_response(self, link: BlockingLink) -> Command:
        """Send pulls ahead, then return the response for the current offset."""
        if self._asked and self._asked[0][0] != self._at:
            self._drop_pulls(link)
        ahead = 1
        if self._stride and not self._reading.is_filtered:
            ahead = min(_AHEAD_MAX, max(2, _AHEAD_MESSAGES // self._stride))
        next_at = self._asked[-1][0] + self._stride if self._asked else self._at
        while len(self._asked) < ahead and next_at < self._range.end:
            count = min(self._stride or self._reading.pull_count, self._range.end - next_at)
            header = self._reading.header(self._range.queue, next_at, count)
            self._asked.append((next_at, link.send(RequestCode.PULL_MESSAGE, header)))
            next_at += count
        _, opaque = self._asked.popleft()
        return link.answer(opaque)

    def _accept(self, response: Command, link: BlockingLink) -> bytes:
        """Return the records of a response and move to the offset after them."""
        if response.code in BUSY_CODES:
            raise TimedOut(f"{link.address} says {response.remark}")
        if response.code not in PULL_CODES:
            raise refusal_of(response, f"broker {link.address}")
        header = read_header(response, PullReplyHeader)
        next_at = header.next_begin_offset
        if response.code == ResponseCode.SUCCESS:
            self._stride = self._next_stride(next_at - self._at)
            self._at = next_at
            return response.body
        if response.code == ResponseCode.PULL_RETRY_IMMEDIATELY and next_at > self._at:
            if not self._reading.is_filtered:
                self._skip_lost(next_at, "their files are being removed")
            self._at = next_at
            return b""
        if not self._reading.cluster.is_master(self._range.queue, link.address):
            raise TimedOut(f"{link.address} is a slave and does not have offset {self._at} yet")
        if header.min_offset > self._at:
            self._skip_lost(header.min_offset, "the broker has deleted them")
        elif header.max_offset <= self._at:
            self._skip_lost(self._range.end, f"the queue ends at {header.max_offset}")
        else:
            self._skip_lost(max(next_at, self._at + 1), "the broker does not find them")
        return b""

    def _next_stride(self, got: int) -> int:
        """Return the size of the next pulls; it shrinks if bytes, not messages, are the limit."""
        if self._reading.is_filtered:
            return 0  # the broker decides how many offsets a response covers
        if not self._stride or got >= min(self._stride, self._range.end - self._at):
            return self._stride or got
        return max(1, got * 7 // 8)

    def _skip_lost(self, until: int, reason: str) -> None:
        until = min(until, self._range.end)
        gone = Range(self._range.queue, self._at, until)
        if self._reading.fail_on_data_loss:
            raise DataLost(
                f"messages of {gone} no longer exist: {reason}."
                " Set the option failOnDataLoss=false to skip them"
            )
        log.warning("skipped messages of %s that no longer exist: %s", gone, reason)
        self.lost += gone.count
        self._at = until

    def _drop_pulls(self, link: BlockingLink) -> None:
        for _, opaque in self._asked:
            link.abandon(opaque)
        self._asked.clear()

    def _wait_for_broker(self, error: Exception) -> None:
        self._asked.clear()
        self._stride = 0
        now = time.monotonic()
        self._unreachable_since = self._unreachable_since or now
        timeout_ms = self._reading.broker_timeout_ms
        if now - self._unreachable_since > timeout_ms / 1000:
            waited = f"waited {timeout_ms} ms for broker"
            raise Unreachable(f"{waited} {self._range.queue.broker_name}: {error}") from error
        time.sleep(_PAUSE_S)
