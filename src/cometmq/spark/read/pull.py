"""The messages of a range of a queue, pulled from its broker.

A stock broker answers a pull with 32 messages at most. So that a reader does not wait for each,
pulls are asked ahead: where the next one begins is known if all so far were full. An answer that
is not breaks the row; those on their way are then asked for again.
"""

import logging
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from cometmq.errors import NoRoute, TimedOut, Unreachable, WorldError
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.bodies.route import MASTER_ID
from cometmq.protocol.codes import RequestCode, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.flags import PullFlag
from cometmq.protocol.headers.base import read_header
from cometmq.protocol.headers.pull import PullHeader, PullReplyHeader
from cometmq.protocol.refusal import refusal_of
from cometmq.spark.files.frames import records_of_pull
from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.decode import Records
from cometmq.spark.read.link import BlockingLink
from cometmq.spark.read.offsets import Range

log = logging.getLogger(__name__)

_AHEAD_MESSAGES = 1024
_AHEAD_MAX = 16
_GATHERED_SIZE = 3 << 20  # answers are decoded together from here on: some 10 000 messages
_PAUSE_S = 0.2  # between attempts at a broker that is away
_BUSY = frozenset(
    {ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL}
)


class DataLost(WorldError):
    """Messages that should be there are not."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How queues are read: a value, sent to workers with what they read."""

    cluster: Cluster
    group: str
    expression: str = "*"
    expression_kind: str = "TAG"
    pull_count: int = 4096
    patience_ms: int = 30_000  # with a broker that is away
    fail_on_data_loss: bool = True

    @property
    def is_filtered(self) -> bool:
        """Not all messages are wanted."""
        return self.expression != "*"

    def header(self, queue: MessageQueue, offset: int, count: int) -> PullHeader:
        """Of a pull that does not wait."""
        return PullHeader(
            consumer_group=self.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=int(PullFlag.SUBSCRIPTION),
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=self.expression,
            sub_version=0,
            expression_type=self.expression_kind,
        )


class RangePull:
    """One reader of one range."""

    def __init__(self, reading: Reading, wanted: Range) -> None:
        self._reading = reading
        self._range = wanted
        self._at = wanted.start
        self._stride = 0  # messages of a full answer; 0: not known
        self._asked: deque[tuple[int, int]] = deque()  # offset and number of pulls on their way
        self._away_since: float | None = None
        self.lost = 0  # offsets that were passed over

    def records(self) -> Iterator[Records]:
        """In order, as many at a time as about a megabyte holds."""
        gathered: list[bytes] = []
        size = span = 0
        for body, count in self._bodies():
            gathered.append(body)
            size += len(body)
            span += count
            if size >= _GATHERED_SIZE:
                yield self._of(gathered, span)
                gathered, size, span = [], 0, 0
        if gathered:
            yield self._of(gathered, span)

    def _of(self, bodies: list[bytes], span: int) -> Records:
        found = records_of_pull(bodies[0] if len(bodies) == 1 else b"".join(bodies))
        if len(found) < span and not self._reading.is_filtered:
            self._miss(found, span - len(found))
        offsets = found.queue_offsets
        return found.where((offsets >= self._range.start) & (offsets < self._range.end))

    def _miss(self, found: Records, count: int) -> None:
        """Some of them were not among the others: their records are damaged, or gone."""
        offsets = found.queue_offsets
        around = f"between {offsets[0]} and {offsets[-1]} of {self._range}"
        if self._reading.fail_on_data_loss:
            raise DataLost(
                f"{count} messages {around} are missing: the broker's log says why."
                " With the option failOnDataLoss=false they are passed over"
            )
        log.warning("passed over, as the broker has them no more: %d messages %s", count, around)
        self.lost += count

    def _bodies(self) -> Iterator[tuple[bytes, int]]:
        """Of answers, each with the number of offsets that it covers."""
        link = None
        try:
            while self._at < self._range.end:
                begun = self._at
                try:
                    link = self._link()
                    response = self._next_answer(link)
                    body = self._taken(response, link)
                except (Unreachable, TimedOut, NoRoute) as error:
                    self._wait_for_broker(error)
                    continue
                self._away_since = None
                if body:
                    yield body, self._at - begun
        finally:  # a reader may stop early, and the connection is kept
            if link is not None:
                self._forget(link)

    def _link(self) -> BlockingLink:
        queue = self._range.queue
        return self._reading.cluster.link_to(
            queue.topic, queue.broker_name, fresh=self._away_since is not None
        )

    def _next_answer(self, link: BlockingLink) -> Command:
        """The answer to the pull that begins where we are; others are asked before it is read."""
        if self._asked and self._asked[0][0] != self._at:
            self._forget(link)
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

    def _taken(self, response: Command, link: BlockingLink) -> bytes:
        """What an answer brings, and where to go on."""
        if response.code in _BUSY:
            raise TimedOut(f"{link.address} says {response.remark}")
        if response.code not in _PULL_CODES:
            raise refusal_of(response, f"broker {link.address}")
        header = read_header(response, PullReplyHeader)
        next_at = header.next_begin_offset
        if response.code == ResponseCode.SUCCESS:
            self._stride = self._next_stride(next_at - self._at)
            self._at = next_at
            return response.body
        if response.code == ResponseCode.PULL_RETRY_IMMEDIATELY and next_at > self._at:
            if not self._reading.is_filtered:
                self._lose(next_at, "their files are being removed")
            self._at = next_at
            return b""
        if not self._is_master(link):
            raise TimedOut(f"{link.address}, which is no master, has no offset {self._at} yet")
        if header.min_offset > self._at:
            self._lose(header.min_offset, "they have left the broker")
        elif header.max_offset <= self._at:
            self._lose(self._range.end, f"the queue ends at {header.max_offset}")
        else:
            self._lose(max(next_at, self._at + 1), "the broker does not find them")
        return b""

    def _next_stride(self, got: int) -> int:
        """As many as an answer holds: less than that, if it is bytes that fill it."""
        if self._reading.is_filtered:
            return 0  # an answer covers as many as it must
        if not self._stride or got >= min(self._stride, self._range.end - self._at):
            return self._stride or got
        return max(1, got * 7 // 8)

    def _is_master(self, link: BlockingLink) -> bool:
        queue = self._range.queue
        nodes = self._reading.cluster.route(queue.topic).brokers.get(queue.broker_name, {})
        return nodes.get(MASTER_ID) == link.address

    def _lose(self, until: int, reason: str) -> None:
        until = min(until, self._range.end)
        gone = Range(self._range.queue, self._at, until)
        if self._reading.fail_on_data_loss:
            raise DataLost(
                f"messages of {gone} are not there any more: {reason}."
                " With the option failOnDataLoss=false they are passed over"
            )
        log.warning("passed over, as they are not there any more: %s, %s", gone, reason)
        self.lost += gone.count
        self._at = until

    def _forget(self, link: BlockingLink) -> None:
        for _, opaque in self._asked:
            link.abandon(opaque)
        self._asked.clear()

    def _wait_for_broker(self, error: Exception) -> None:
        self._asked.clear()
        self._stride = 0
        now = time.monotonic()
        self._away_since = self._away_since or now
        if now - self._away_since > self._reading.patience_ms / 1000:
            waited = f"waited {self._reading.patience_ms} ms for broker"
            raise Unreachable(f"{waited} {self._range.queue.broker_name}: {error}") from error
        time.sleep(_PAUSE_S)


_PULL_CODES = frozenset(
    {
        ResponseCode.SUCCESS,
        ResponseCode.PULL_NOT_FOUND,
        ResponseCode.PULL_RETRY_IMMEDIATELY,
        ResponseCode.PULL_OFFSET_MOVED,
    }
)


def one_stored_ms(reading: Reading, queue: MessageQueue, offset: int) -> int | None:
    """When the message at an offset was stored; None if there is none.

    Of any message: with the filter of a reading, brokers would answer with a later one, or none.
    """
    every = replace(reading, expression="*", expression_kind="TAG")
    link = reading.cluster.link_to(queue.topic, queue.broker_name)
    response = link.ask(RequestCode.PULL_MESSAGE, every.header(queue, offset, 1))
    if response.code != ResponseCode.SUCCESS:
        return None
    return int(records_of_pull(response.body).stored_ms[0])


def check_filter(reading: Reading, queue: MessageQueue) -> None:
    """Ask once, so that a filter or a group that the broker does not take is told at the start."""
    link = reading.cluster.link_to(queue.topic, queue.broker_name)
    header = reading.header(queue, reading.cluster.first(queue), 1)
    response = link.ask(RequestCode.PULL_MESSAGE, header)
    if response.code not in _PULL_CODES:
        raise refusal_of(response, f"broker {link.address}")


def mean_size(reading: Reading, wanted: list[Range]) -> float:
    """Of a record, by a look at the first of each range."""
    size = count = 0
    for each in wanted:
        link = reading.cluster.link_to(each.queue.topic, each.queue.broker_name)
        response = link.ask(
            RequestCode.PULL_MESSAGE, reading.header(each.queue, each.start, each.count)
        )
        if response.code == ResponseCode.SUCCESS:
            size += len(response.body)
            count += len(records_of_pull(response.body))
    return size / count if count else 1.0
