"""The messages of one queue that were pulled and are not done yet.

A message waits, is taken by a listener, and is then done or given back. The offset to commit is the
lowest that is not done: what is above it may be consumed again, never be lost.

It belongs to the loop: listeners run in threads, but tell the loop what they have done.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence

from cometmq.client.consumer.shared.flow_limits import FlowLimits, Hold
from cometmq.client.message import ReceivedMessage


class ProcessQueue:
    """See the top of the file. All verbs take constant time for messages that come in order."""

    def __init__(self) -> None:
        self._messages: dict[int, ReceivedMessage] = {}  # all that are not done, by offset
        self._order: deque[int] = deque()  # their offsets, ascending, with some that are done
        self._waiting: deque[int] = deque()  # those nobody took, ascending
        self._taken: set[int] = set()  # those somebody took
        self._end = 0  # the offset after the highest that ever came
        self.size = 0  # bytes of body, as they came
        self.is_dropped = False

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def waiting(self) -> int:
        """How many nobody has taken yet."""
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
        """From the lowest that is not done to the highest."""
        lowest = self.lowest
        if lowest is None:
            return 0
        while self._order[-1] not in self._messages:
            self._order.pop()
        return self._order[-1] - lowest

    def hold(self, limits: FlowLimits) -> Hold | None:
        """Why not to pull now; None to go on."""
        if len(self._messages) > limits.messages:
            return Hold.MESSAGES
        if self.size > limits.size:
            return Hold.SIZE
        if limits.span is not None and self.span > limits.span:
            return Hold.SPAN
        return None

    def add(self, messages: Sequence[ReceivedMessage]) -> int:
        """Let these wait; how many of them are new. A queue that was dropped takes none."""
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
        if not is_ascending:  # an offset was reset: rare
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
        """Somebody took it, and it is neither done nor given back."""
        return offset in self._taken

    def done(self, offsets: Iterable[int]) -> int | None:
        """These were taken and are done: the offset to commit.

        None if there is nothing to commit: nothing was here, or the queue is ours no more. An
        offset that nobody took is passed over: it was given up, or the queue is read anew.
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
        """All that were taken are done, in orderly consumption: the offset after the last one.

        None if none was taken, or the queue is ours no more.
        """
        if self.is_dropped or not self._taken:
            return None
        last = max(self._taken)
        self.done(list(self._taken))
        return last + 1

    def give_back(self, offsets: Iterable[int]) -> None:
        """These were taken and shall be taken again, in their place."""
        back = sorted(self._taken.intersection(offsets))
        self._taken.difference_update(back)
        if back and self._waiting and back[-1] > self._waiting[0]:
            self._waiting = deque(sorted([*back, *self._waiting]))
        else:
            self._waiting.extendleft(reversed(back))

    def rollback(self) -> None:
        """All that were taken shall be taken again."""
        self.give_back(self._taken)

    def drop(self) -> None:
        """The queue is another's now: forget all, and commit nothing more."""
        self.is_dropped = True
        self.clear()

    def clear(self) -> None:
        """Forget all: the queue is read anew, from an offset that was reset."""
        self._messages.clear()
        self._order.clear()
        self._waiting.clear()
        self._taken.clear()
        self._end = 0
        self.size = 0

    def _sort(self) -> None:
        self._order = deque(sorted(self._messages))
        self._waiting = deque(sorted(self._messages.keys() - self._taken))
