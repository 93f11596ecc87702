"""One queue of a consumer that polls: what was pulled ahead, and how far the poller has come.

    ... done ][ in hand ][ waits here ][ at the broker ...
              ^ done     ^ position    ^ next_offset

What the last poll returned is in hand: its reader may still work on it. The next poll says that it
is done, and so does a commit. Who pulls names the generation it began in: a seek begins another,
and what was asked for before it is not taken any more.
"""

from collections import deque

from cometmq.client.consumer.shared.flow_limits import FlowLimits, Hold
from cometmq.client.message import PullResult, ReceivedMessage
from cometmq.protocol.bodies.queues import MessageQueue


class _Batch:
    """What one pull found, and the offset after it, which filtered messages may be before."""

    __slots__ = ("end", "messages", "taken")

    def __init__(self, messages: tuple[ReceivedMessage, ...], end: int) -> None:
        self.messages = messages
        self.end = end
        self.taken = 0


class ReadAhead:
    """See the top of the file. It knows no loop and no broker."""

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
        self.position: int | None = None  # of what poll returns next; None if not known yet
        self.next_offset: int | None = None  # to pull
        self.in_hand: int | None = None  # the lowest offset of what was last returned
        self.is_paused = False
        self.count = 0  # messages that wait
        self.size = 0  # bytes of their bodies, as they came
        self._batches: deque[_Batch] = deque()

    @property
    def done(self) -> int | None:
        """What may be committed without being asked."""
        return self.position if self.in_hand is None else self.in_hand

    @property
    def bounds(self) -> tuple[int, int] | None:
        """The lowest and the highest offset that wait."""
        if not self._batches:
            return None
        first, last = self._batches[0], self._batches[-1]
        return first.messages[first.taken].queue_offset, last.messages[-1].queue_offset

    @property
    def is_ready(self) -> bool:
        """There is something to take."""
        return bool(self._batches) and not self.is_paused

    @property
    def is_between_batches(self) -> bool:
        """What one pull found has been taken whole, and nothing yet of the next."""
        return not self._batches or not self._batches[0].taken

    def hold(self, limits: FlowLimits) -> Hold | None:
        """Why not to pull now; None to go on."""
        if self.count > limits.messages:
            return Hold.MESSAGES
        if self.size > limits.size:
            return Hold.SIZE
        bounds = self.bounds
        if bounds is not None and limits.span is not None and bounds[1] - bounds[0] > limits.span:
            return Hold.SPAN
        return None

    def begin(self, generation: int, offset: int) -> None:
        """Pull from here on, unless a seek was faster."""
        if generation == self.generation and self.position is None:
            self.position = self.next_offset = offset

    def seek(self, offset: int) -> None:
        """Go on from here, with nothing of what was pulled or asked for before."""
        self.generation += 1
        self._batches.clear()
        self.count = self.size = 0
        self.in_hand = None
        self.position = self.next_offset = offset

    def add(self, generation: int, result: PullResult) -> bool:
        """The answer to a pull: whether it was taken. One from before a seek is not."""
        if generation != self.generation:
            return False
        end = self.next_offset = result.next_offset
        if result.messages:
            self._batches.append(_Batch(result.messages, end))
            self.count += len(result.messages)
            self.size += sum([message.size for message in result.messages])
        elif self._batches:
            self._batches[-1].end = end  # passed over once the batch is taken
        else:
            self.position = end
        return True

    def take(self, limit: int) -> list[ReceivedMessage]:
        """The next ones in order, of one pull; from now on they are in hand."""
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
        """The next one of a pull that is taken in part; None if it is the last, or there is none.

        For who takes one by one: as `take`, at a third of the time.
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
        """What was in hand is done."""
        self.in_hand = None

    def put_down_to(self, offset: int) -> None:
        """What was in hand is done as far as this, if that is within it."""
        if self.in_hand is not None and self.position is not None:
            if offset == self.position:
                self.in_hand = None
            elif self.in_hand < offset < self.position:
                self.in_hand = offset
