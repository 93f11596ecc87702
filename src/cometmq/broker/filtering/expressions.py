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
_LENGTH_MAX = 1 << 20  # of all texts; a compiled expression takes about 100 times its text

Codes = frozenset[int]
_COMPILERS: dict[str, Callable[[str], object]] = {
    "SQL92": compile_condition,
    "TAG": lambda text: tag_codes(text) or frozenset(),
}


class NotCompiled(Exception):
    """A long expression is not in the cache; `Expressions.compile_on_thread` compiles it."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(kind)
        self.kind = kind
        self.text = text


class Expressions:
    """A cache by kind and text. It is used on the loop only; the thread just compiles."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[str, str], object] = {}  # least recently used first
        self._length = 0
        self._thread: ThreadPoolExecutor | None = None  # two would not compile faster
        self._compiling: dict[tuple[str, str], asyncio.Future[object]] = {}  # on the thread

    def __len__(self) -> int:
        return len(self._compiled)

    def condition(self, text: str, *, blocking: bool = False) -> Condition:
        """An SQL92 condition. Raises BadExpression or, if not `blocking`, NotCompiled."""
        found = self._get("SQL92", text, blocking)
        assert isinstance(found, Condition)
        return found

    def codes(self, text: str, *, blocking: bool = False) -> Codes:
        """The codes of a tag expression. Raises the same as `condition`."""
        found = self._get("TAG", text, blocking)
        assert isinstance(found, frozenset)
        return found

    async def compile_on_thread(self, missing: NotCompiled) -> None:
        """Compile it on the thread and cache it. Raises BadExpression."""
        kind, text = key = missing.kind, missing.text
        if key in self._compiled:
            return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="expressions")
        job = self._compiling.get(key)
        if job is None:  # otherwise another request waits for the same expression
            loop = asyncio.get_running_loop()
            job = loop.run_in_executor(self._thread, _COMPILERS[kind], text)
            self._compiling[key] = job
            job.add_done_callback(partial(self._done, key))
        self._put(kind, text, await asyncio.shield(job))

    def _done(self, key: tuple[str, str], job: asyncio.Future[object]) -> None:
        del self._compiling[key]
        if not job.cancelled():
            job.exception()  # mark it as retrieved: all waiting requests may have left

    def _get(self, kind: str, text: str, blocking: bool) -> object:
        found = self._compiled.pop((kind, text), None)
        if found is not None:
            self._compiled[kind, text] = found
            return found
        if len(text) > LONG and not blocking:
            raise NotCompiled(kind, text)
        found = _COMPILERS[kind](text)
        self._put(kind, text, found)
        return found

    def _put(self, kind: str, text: str, found: object) -> None:
        if (kind, text) in self._compiled:
            return
        self._compiled[kind, text] = found
        self._length += len(text)
        cached = self._compiled
        while len(cached) > _COUNT_MAX or (self._length > _LENGTH_MAX and len(cached) > 1):
            oldest = next(iter(cached))
            del cached[oldest]
            self._length -= len(oldest[1])
