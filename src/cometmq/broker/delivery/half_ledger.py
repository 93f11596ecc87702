"""Which half messages are open, and the progress on their queue and on the queue of ops.

A half message whose producer was asked is stored again at the end of its queue, so that the
beginning of the queue can be cleaned. Its producer may still know it by an earlier offset.

Invariants: offsets before `progress` are closed; `progress` itself is open or the end of the queue;
every known offset of an open half message leads to its current offset.
"""

from collections import deque


class HalfLedger:
    """Half messages by queue offset."""

    def __init__(self, progress: int, op_progress: int) -> None:
        self.progress = progress
        self.op_progress = op_progress
        self._closed: set[int] = set()  # offsets from `progress` on
        self._ops: deque[int] = deque()  # half offsets in the ops from `op_progress` on
        self._current: dict[int, int] = {}  # an offset that a producer may know, to the current one
        self._known: dict[int, tuple[int, ...]] = {}  # the current offset of a copy, to those

    def is_open(self, offset: int) -> bool:
        """The half message at this offset is neither decided nor moved."""
        return offset >= self.progress and offset not in self._closed

    def place(self, offset: int) -> int | None:
        """The current offset of a half message that was once at `offset`; None if it is closed."""
        offset = self._current.get(offset, offset)
        return offset if self.is_open(offset) else None

    def move(self, old: int, new: int, *, is_sent: bool) -> None:
        """It was stored again at `new`; `is_sent` if producers learn the new offset."""
        assert new > old, "a copy is put at the end of the queue"
        known = self._known.get(old, (old,))
        self._set_known(new, (*known, new) if is_sent else known)
        self._known.pop(old, None)
        self._close(old)

    def adopt(self, first: int, copy: int) -> None:
        """Loading found a copy of the half message that was first at `first`.

        A damaged copy may name an offset after its own. Then it counts as a first one.
        """
        now = self.place(first)
        if now is None:
            self._set_known(copy, (first, copy))
        elif now < copy:
            self.move(now, copy, is_sent=True)

    def close(self, offset: int) -> None:
        """The half message at its current offset is decided or given up."""
        for known in self._known.pop(offset, ()):
            self._current.pop(known, None)
        self._close(offset)

    def op(self, offset: int) -> None:
        """The queue of ops has one more, for the half message at `offset`."""
        self._ops.append(offset)
        self._advance()

    def _set_known(self, offset: int, known: tuple[int, ...]) -> None:
        self._known[offset] = known
        for each in known:
            self._current[each] = offset

    def _close(self, offset: int) -> None:
        if offset >= self.progress:
            self._closed.add(offset)
        self._advance()
        assert not self.is_open(offset), "closed for good"

    def _advance(self) -> None:
        closed, ops = self._closed, self._ops
        while self.progress in closed:
            closed.remove(self.progress)
            self.progress += 1
        while ops and ops[0] < self.progress:
            ops.popleft()
            self.op_progress += 1
