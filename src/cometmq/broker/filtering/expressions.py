"""Compiled filter expressions, cached: SQL92 conditions and sets of tag codes.

Compiling a long one takes hundreds of milliseconds. It is compiled once, on a thread, and all
requests that need it wait; a short one is compiled where it is needed.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from cometmq.protocol.filter.sql import Condition, compile_condition
from cometmq.protocol.filter.tags import tag_codes

LONG = 2_048  # characters: about 10 ms
_COUNT_MAX = 10_000
_LENGTH_MAX = 1 << 20  # of all texts together; what is made of them takes a hundred times as much

Codes = frozenset[int]
_READERS: dict[str, Callable[[str], object]] = {
    "SQL92": compile_condition,
    "TAG": lambda text: tag_codes(text) or frozenset(),
}


class Unread(Exception):
    """An expression is long and must be read by `Expressions.read_aside` first."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind)
        self.kind = kind
        self.text = text


class Expressions:
    """By kind and text, the last used ones; all of it runs on the loop but for the reading."""

    def __init__(self) -> None:
        self._read: dict[tuple[str, str], object] = {}  # the last used at the end
        self._length = 0
        self._thread: ThreadPoolExecutor | None = None  # one: two would only share its time
        self._reading: dict[tuple[str, str], asyncio.Future[object]] = {}  # on the thread

    def __len__(self) -> int:
        return len(self._read)

    def condition(self, text: str, *, at_once: bool = False) -> Condition:
        """Of SQL92. BadExpression if it is none; Unread, unless it is to be read immediately."""
        found = self._get("SQL92", text, at_once)
        assert isinstance(found, Condition)
        return found

    def codes(self, text: str, *, at_once: bool = False) -> Codes:
        """Of tags. BadExpression if it is no expression; Unread as above."""
        found = self._get("TAG", text, at_once)
        assert isinstance(found, frozenset)
        return found

    async def read_aside(self, unread: Unread) -> None:
        """Read it on the thread; BadExpression if it is none."""
        kind, text = key = unread.kind, unread.text
        if key in self._read:
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="expressions")
        job = self._reading.get(key)
        if job is None:  # else another request waits for the same one
            loop = asyncio.get_running_loop()
            job = loop.run_in_executor(self._thread, _READERS[kind], text)
            self._reading[key] = job
            job.add_done_callback(partial(self._done, key))
        self._put(kind, text, await asyncio.shield(job))

    def _done(self, key: tuple[str, str], job: asyncio.Future[object]) -> None:
        del self._reading[key]
        if not job.cancelled():
            job.exception()  # raised by each request that waits, or by none if all have left

    def _get(self, kind: str, text: str, at_once: bool) -> object:
        found = self._read.pop((kind, text), None)
        if found is not None:
            self._read[kind, text] = found
            return found
        if len(text) > LONG and not at_once:
            raise Unread(kind, text)
        found = _READERS[kind](text)
        self._put(kind, text, found)
        return found

    def _put(self, kind: str, text: str, found: object) -> None:
        if (kind, text) in self._read:
            return
        self._read[kind, text] = found
        self._length += len(text)
        while len(self._read) > _COUNT_MAX or (self._length > _LENGTH_MAX and len(self._read) > 1):
            oldest = next(iter(self._read))
            del self._read[oldest]
            self._length -= len(oldest[1])
