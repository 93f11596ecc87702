"""Idempotent consumption: a listener runs once for each business key, within what stores can do.

Two phases. Before the listener runs, its key is put in the store as in progress, for a time (the
lease); after it has returned, as done, for a longer time (the retention). Then

    run     nobody has this key, or whoever had it did not finish within the lease
    skip    it is done
    later   somebody works on it: the message must come again

A process that dies between the phases leaves its lease: the message is consumed again after it. So
a listener that changes the world and dies before `done` runs twice; what it changes in the same
transaction as its own mark of the key does not.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from functools import partial, wraps
from typing import Protocol, TypeVar
from uuid import uuid4

from cometmq.client.consumer.outcomes import Ack, Retry, Rollback, Suspend
from cometmq.client.message import ReceivedMessage
from cometmq.errors import BadMessage, BadSetting, InProgress

LEASE = timedelta(minutes=15)  # as long as a listener may take before its message is sent back
RETENTION = timedelta(days=3)  # as long as a broker keeps messages

R = TypeVar("R")
T = TypeVar("T")


class Verdict(Enum):
    """What to do with a message."""

    RUN = "run"
    SKIP = "skip"
    LATER = "later"


class DedupStore(Protocol):
    """Keys in progress and done. Any thread may call it."""

    @property
    def blocks(self) -> bool:
        """It waits for a disk, so not on the loop."""

    def begin(self, key: str, owner: str, lease_ms: int) -> Verdict:
        """The first phase: RUN means that the owner has the key now."""

    def done(self, key: str, retention_ms: int) -> None:
        """The second phase; true whoever had the key, as the work is done."""

    def release(self, key: str, owner: str) -> None:
        """The work failed: the next one may have the key, if it is still this owner's."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The verdict for one message; after RUN, one of the two verbs ends it."""

    verdict: Verdict
    key: str
    _store: DedupStore
    _owner: str
    _retention_ms: int

    def done(self) -> None:
        """The work is done: the key is skipped from now on."""
        self._store.done(self.key, self._retention_ms)

    def release(self) -> None:
        """The work failed: the message may be tried again at once."""
        self._store.release(self.key, self._owner)

    def end(self, is_done: bool) -> None:
        """One or the other."""
        if is_done:
            self.done()
        else:
            self.release()


def is_consumed(result: object) -> bool:
    """Not one of the outcomes by which a message comes again."""
    return not isinstance(result, Retry | Suspend | Rollback) and result != Ack(0)


class Dedup:
    """Decides by business key whether a listener runs.

    `key` gives the business key of a message, by default its only key; `scope` keeps groups that
    share a store apart.
    """

    def __init__(
        self,
        store: DedupStore,
        key: Callable[[ReceivedMessage], str] | None = None,
        *,
        scope: str = "",
        lease: timedelta = LEASE,
        retention: timedelta = RETENTION,
    ) -> None:
        self._store = store
        self._key = key or only_key
        self._scope = scope
        self._lease_ms = _positive_ms("lease", lease)
        self._retention_ms = _positive_ms("retention", retention)

    def begin(self, message: ReceivedMessage) -> Attempt:
        """The first phase for a message."""
        key = f"{self._scope}/{self._key(message)}"
        owner = uuid4().hex
        verdict = self._store.begin(key, owner, self._lease_ms)
        return Attempt(verdict, key, self._store, owner, self._retention_ms)

    def guard(
        self, listener: Callable[[ReceivedMessage], R], is_done: Callable[[R], bool] = is_consumed
    ) -> Callable[[ReceivedMessage], R | None]:
        """The listener, run once a key; of a key that is done it returns None at once.

        It raises InProgress where the message must come again. When the listener raises, or
        returns what `is_done` denies, the key is free again: by default, an outcome by which the
        message comes again.
        """
        if inspect.iscoroutinefunction(listener):
            raise BadSetting(f"{listener!r} is a coroutine: use guard_async")

        @wraps(listener)
        def guarded(message: ReceivedMessage) -> R | None:
            attempt = self.begin(message)
            if not _may_run(attempt):
                return None
            try:
                result = listener(message)
            except BaseException:
                attempt.release()
                raise
            attempt.end(is_done(result))
            return result

        return guarded

    def guard_async(
        self,
        listener: Callable[[ReceivedMessage], Awaitable[R]],
        is_done: Callable[[R], bool] = is_consumed,
    ) -> Callable[[ReceivedMessage], Awaitable[R | None]]:
        """As `guard`, for a coroutine; a store that blocks is called on a thread.

        A cancelled call frees its key: once it can, if it is cancelled while it begins.
        """

        @wraps(listener)
        async def guarded(message: ReceivedMessage) -> R | None:
            begun = self._called(partial(self.begin, message))
            try:
                attempt = await asyncio.shield(begun)
            except asyncio.CancelledError:
                await asyncio.wait([begun])
                if begun.exception() is None:
                    await self._called(begun.result().release)
                raise
            if not _may_run(attempt):
                return None
            try:
                result = await listener(message)
            except BaseException:  # cancelled, too
                await self._called(attempt.release)
                raise
            await asyncio.shield(self._called(partial(attempt.end, is_done(result))))
            return result

        return guarded

    def _called(self, work: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        if self._store.blocks:
            return loop.run_in_executor(None, work)
        called: asyncio.Future[T] = loop.create_future()
        called.set_result(work())
        return called


def _may_run(attempt: Attempt) -> bool:
    if attempt.verdict is Verdict.LATER:
        raise InProgress(f"{attempt.key} is in progress elsewhere: the message comes again")
    return attempt.verdict is Verdict.RUN


def only_key(message: ReceivedMessage) -> str:
    """The key of a message that has one; BadMessage if it has none or several."""
    keys = message.keys
    if len(keys) != 1:
        raise BadMessage(
            f"{message!r} has {len(keys)} keys: give Dedup a `key` that makes one of the message"
        )
    return keys[0]


def _positive_ms(name: str, value: timedelta) -> int:
    milliseconds = value // timedelta(milliseconds=1)
    if milliseconds < 1:
        raise BadSetting(f"{name} is {value}: it must be at least a millisecond")
    return milliseconds
