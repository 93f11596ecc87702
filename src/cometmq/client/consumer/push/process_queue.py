"""The messages of one queue that were pulled and are not done yet.

A message waits, is taken by a listener call, and is then done or given back. The offset to commit
is the lowest that is not done: messages above it may be delivered twice, but none is lost.

It belongs to the loop: listeners run in threads, but their results are processed on the loop.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from cometmq.client.consumer.shared.flow_limits import FlowLimits, Hold
from cometmq.client.message import ReceivedMessage


class ProcessQueue:
    """See the top of the file. All methods take constant time per message if offsets ascend."""

    def __init__(self) -> None:
        self._messages: dict[int, ReceivedMessage] = {}  # all messages that are not done, by offset
        self._order: deque[int] = deque()  # their offsets, ascending, with some of done messages
        self._waiting: deque[int] = deque()  # offsets of messages that wait, ascending
        self._taken: set[int] = set()  # offsets of messages that a listener call has
        self._end = 0  # the offset after the highest that was added
        self.size = 0  # bytes of the bodies, compressed as they arrived
        self.is_dropped = False

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def waiting(self) -> int:
        """How many messages wait for a listener call."""
        return len(self._messages) - len(self._taken)

    @property
    def lowest(self) -> int | None:
        """The lowest offset that is not done."""
        order, messages = self._order, self._messages
        while order and order[0] not in messages:
            order.popleft()
        return order[0] if order else None

    @property
    def span(self) -> int:
        """The distance from the lowest offset that is not done to the highest."""
        lowest = self.lowest
        if lowest is None:
            return 0
        while self._order[-1] not in self._messages:
            self._order.pop()
        return self._order[-1] - lowest

    def hold(self, limits: FlowLimits) -> Hold | None:
        """The flow limit that was exceeded; None if the queue may be pulled from."""
        if len(self._messages) > limits.messages:
            return Hold.MESSAGES
        if self.size > limits.size:
            return Hold.SIZE
        if limits.span is not None and self.span > limits.span:
            return Hold.SPAN
        return None

    def add(self, messages: Sequence[ReceivedMessage]) -> int:
        """Add messages; return how many are new. A dropped queue accepts none."""
        if self.is_dropped:
            return 0
        held, size = self._messages, 0
        fresh = []
        for message in messages:
            offset = message.queue_offset
            if offset not in held:
                held[offset] = message
                size += message.size
                fresh.append(offset)
        if not fresh:
            return 0
        self.size += size
        is_ascending = fresh[0] >= self._end and all(map(int.__lt__, fresh, fresh[1:]))
        self._order.extend(fresh)
        self._waiting.extend(fresh)
        self._end = max(self._end, max(fresh) + 1)
        if not is_ascending:  # rare: an offset was reset
            self._sort()
        return len(fresh)

    def take(
        self, count: int, while_true: Callable[[ReceivedMessage], bool] | None = None
    ) -> list[ReceivedMessage]:
        """Take the next waiting messages in order, at most `count`.

        With `while_true`, stop before the first message for which it returns False.
        """
        waiting, messages, is_taken = self._waiting, self._messages, self._taken
        taken: list[ReceivedMessage] = []
        for _ in range(min(count, len(waiting))):
            message = messages[waiting[0]]
            if while_true is not None and not while_true(message):
                break
            is_taken.add(waiting.popleft())
            taken.append(message)
        return taken

    def is_taken(self, offset: int) -> bool:
        """True if a listener call has it: it is neither done nor given back."""
        return offset in self._taken

    def done(self, offsets: Iterable[int]) -> int | None:
        """Mark taken messages as done, and return the offset to commit.

        Returns None if there is nothing to commit: the queue is empty or dropped. Offsets that are
        not taken are ignored: their call expired, or the queue was restarted.
        """
        if self.is_dropped or not self._messages:
            return None
        for offset in offsets:
            if offset in self._taken:
                self._taken.remove(offset)
                self.size -= self._messages.pop(offset).size
        lowest = self.lowest
        return self._end if lowest is None else lowest

    def commit(self) -> int | None:
        """Mark all taken messages as done, and return the offset after the last one (orderly).

        Returns None if no message was taken, or if the queue is dropped.
        """
        if self.is_dropped or not self._taken:
            return None
        last = max(self._taken)
        self.done(list(self._taken))
        return last + 1

    def give_back(self, offsets: Iterable[int]) -> None:
        """Let taken messages wait again, in their order."""
        back = sorted(self._taken.intersection(offsets))
        self._taken.difference_update(back)
        if back and self._waiting and back[-1] > self._waiting[0]:
            self._waiting = deque(sorted([*back, *self._waiting]))
        else:
            self._waiting.extendleft(reversed(back))

    def rollback(self) -> None:
        """Let all taken messages wait again."""
        self.give_back(self._taken)

    def drop(self) -> None:
        """Discard all messages, and accept and commit nothing more."""
        self.is_dropped = True
        self.clear()

    def clear(self) -> None:
        """Discard all messages."""
        self._messages.clear()
        self._order.clear()
        self._waiting.clear()
        self._taken.clear()
        self._end = 0
        self.size = 0

    def _sort(self) -> None:
        self._order = deque(sorted(self._messages))
        self._waiting = deque(sorted(self._messages.keys() - self._taken))
