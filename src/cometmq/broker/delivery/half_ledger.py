"""Which half messages are undecided, and how far their queue and that of decisions are done.

A half message that is asked about is put again at the end of its queue, so that the queue's
beginning can be left behind. Its producer may still know it by an earlier place.
"""

from collections import deque


class HalfLedger:
    """Half messages by queue offset; those before `progress` are closed."""

    def __init__(self, progress: int, op_progress: int) -> None:
        self.progress = progress
        self.op_progress = op_progress
        self._closed: set[int] = set()  # from `progress` on
        self._ops: deque[int] = deque()  # the half messages of the ops from `op_progress` on
        self._place: dict[int, int] = {}  # a place that a producer may know, to where it is now
        self._names: dict[int, tuple[int, ...]] = {}  # a copy, to those places

    def is_open(self, offset: int) -> bool:
        """Nobody has said yet what becomes of it."""
        return offset >= self.progress and offset not in self._closed

    def place(self, offset: int) -> int | None:
        """Where the half message is now that was put at this offset; None if it is closed."""
        offset = self._place.get(offset, offset)
        return offset if self.is_open(offset) else None

    def move(self, old: int, new: int, *, is_told: bool) -> None:
        """Put again; its producer may know the new place."""
        names = self._names.get(old, (old,))
        self._name(new, (*names, new) if is_told else names)
        self._names.pop(old, None)
        self._close(old)

    def adopt(self, first: int, copy: int) -> None:
        """A copy was found of the half message that was first put there."""
        now = self.place(first)
        if now is None:
            self._name(copy, (first, copy))
        elif now != copy:
            self.move(now, copy, is_told=True)

    def close(self, offset: int) -> None:
        """It is decided, or given up."""
        for name in self._names.pop(offset, ()):
            self._place.pop(name, None)
        self._close(offset)

    def op(self, offset: int) -> None:
        """The queue of decisions has one more, about this half message."""
        self._ops.append(offset)
        self._advance()

    def _name(self, offset: int, names: tuple[int, ...]) -> None:
        self._names[offset] = names
        for name in names:
            self._place[name] = offset

    def _close(self, offset: int) -> None:
        if offset >= self.progress:
            self._closed.add(offset)
        self._advance()

    def _advance(self) -> None:
        closed, ops = self._closed, self._ops
        while self.progress in closed:
            closed.remove(self.progress)
            self.progress += 1
        while ops and ops[0] < self.progress:
            ops.popleft()
            self.op_progress += 1
