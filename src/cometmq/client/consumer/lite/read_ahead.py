"""One queue of a lite pull consumer: the buffered messages, and the position of its reader.

    ... done ][ in hand ][ buffered ][ at the broker ...
              ^ done     ^ position  ^ next_offset

The messages that the last poll returned are in hand: the reader may still process them. The next
poll, or a commit, marks them as done. A pull carries the generation in which it was sent; a seek
starts another generation, and results of an older one are discarded.
"""

from collections import deque

from cometmq.client.consumer.shared.flow_limits import FlowLimits, Hold
from cometmq.client.message import PullResult, ReceivedMessage
from cometmq.protocol.bodies.queues import MessageQueue


class _Batch:
    """The messages of one pull, and its next offset, which may be after filtered messages."""

    __slots__ = ("end", "messages", "taken")

    def __init__(self, messages: tuple[ReceivedMessage, ...], end: int) -> None:
        self.messages = messages
        self.end = end
        self.taken = 0


class ReadAhead:
    """See the top of the file. Pure: it knows neither the loop nor a broker."""

    __slots__ = (
        "_batches",
        "count",
        "generation",
        "in_hand",
        "is_paused",
        "next_offset",
        "position",
        "queue",
        "size",
    )

    def __init__(self, queue: MessageQueue) -> None:
        self.queue = queue
        self.generation = 0
        self.position: int | None = None  # of the next message to return; None until it is known
        self.next_offset: int | None = None  # to pull
        self.in_hand: int | None = None  # the lowest offset that the last poll returned
        self.is_paused = False
        self.count = 0  # buffered messages
        self.size = 0  # bytes of their bodies, compressed as they arrived
        self._batches: deque[_Batch] = deque()

    @property
    def done(self) -> int | None:
        """The offset to commit automatically: messages in hand are not included."""
        return self.position if self.in_hand is None else self.in_hand

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The lowest and the highest buffered offset."""
        if not self._batches:
            return None
        first, last = self._batches[0], self._batches[-1]
        return first.messages[first.taken].queue_offset, last.messages[-1].queue_offset

    @property
    def is_ready(self) -> bool:
        """True if there is a message to take."""
        return bool(self._batches) and not self.is_paused

    @property
    def is_between_batches(self) -> bool:
        """True if no pull's messages are taken in part."""
        return not self._batches or not self._batches[0].taken

    def hold(self, limits: FlowLimits) -> Hold | None:
        """The flow limit that was exceeded; None if the queue may be pulled from."""
        if self.count > limits.messages:
            return Hold.MESSAGES
        if self.size > limits.size:
            return Hold.SIZE
        bounds = self.bounds
        if bounds is not None and limits.span is not None and bounds[1] - bounds[0] > limits.span:
            return Hold.SPAN
        return None

    def begin(self, generation: int, offset: int) -> None:
        """Start at `offset`, unless a seek was faster."""
        if generation == self.generation and self.position is None:
            self.position = self.next_offset = offset

    def seek(self, offset: int) -> None:
        """Continue at `offset`, and discard buffered messages and results of pulls in flight."""
        self.generation += 1
        self._batches.clear()
        self.count = self.size = 0
        self.in_hand = None
        self.position = self.next_offset = offset

    def add(self, generation: int, result: PullResult) -> bool:
        """Add the result of a pull; return False if it is discarded because of a seek."""
        if generation != self.generation:
            return False
        end = self.next_offset = result.next_offset
        if result.messages:
            self._batches.append(_Batch(result.messages, end))
            self.count += len(result.messages)
            self.size += sum([message.size for message in result.messages])
        elif self._batches:
            self._batches[-1].end = end  # skips filtered messages after the batch
        else:
            self.position = end
        return True

    def take(self, limit: int) -> list[ReceivedMessage]:
        """Take the next messages of one pull, at most `limit`; they are in hand then."""
        batch = self._batches[0]
        begin = batch.taken
        messages = list(batch.messages[begin : begin + limit])
        batch.taken += len(messages)
        self.count -= len(messages)
        self.size -= sum([message.size for message in messages])
        self.in_hand = messages[0].queue_offset
        if batch.taken == len(batch.messages):
            self._batches.popleft()
            self.position = batch.end
        else:
            self.position = messages[-1].queue_offset + 1
        return messages

    def take_next(self) -> ReceivedMessage | None:
        """Take the next message of a pull that is taken in part; None if it is the last one.

        For reading one by one: it costs a third of `take(1)`.
        """
        if self.is_paused or not self._batches:
            return None
        batch = self._batches[0]
        at = batch.taken
        if not 0 < at < len(batch.messages) - 1:
            return None
        message = batch.messages[at]
        batch.taken = at + 1
        self.count -= 1
        self.size -= message.size
        self.in_hand = message.queue_offset
        self.position = message.queue_offset + 1
        return message

    def put_down(self) -> None:
        """Mark the messages in hand as done."""
        self.in_hand = None

    def put_down_to(self, offset: int) -> None:
        """Mark the messages in hand below `offset` as done."""
        if self.in_hand is not None and self.position is not None:
            if offset == self.position:
                self.in_hand = None
            elif self.in_hand < offset < self.position:
                self.in_hand = offset
