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
from datetime import timedelta
from functools import partial, wraps
from typing import TypeVar
from uuid import uuid4

from cometmq.client.consumer.shared.outcomes import Ack, Retry, Rollback, Suspend
from cometmq.client.dedup.attempt import DedupStore, KeyAttempt
from cometmq.client.dedup.guarded_call import BatchRound, OneRound, Round
from cometmq.client.durations import Duration, duration_ms
from cometmq.client.message import ReceivedMessage
from cometmq.errors import BadMessage, BadSetting

LEASE = timedelta(minutes=15)  # as long as a listener may take before its message is sent back
RETENTION = timedelta(days=3)  # as long as a broker keeps messages

G = TypeVar("G", ReceivedMessage, list[ReceivedMessage])
R = TypeVar("R")
T = TypeVar("T")


def is_consumed(result: object) -> bool:
    """Not one of the outcomes by which a message comes again."""
    if isinstance(result, Ack):
        return result.count != 0
    return not isinstance(result, Retry | Suspend | Rollback)


class Dedup:
    """Decides by business key whether a listener runs.

    Args:
        store: Stores the keys in progress and the keys that are done.
        key: Returns the business key of a message; by default its only key.
        scope: Separates groups that share a store.
        lease: How long a key is in progress before another consumer may process it; seconds or a
            timedelta, at least the longest run of the listener.
        retention: How long a key is remembered after it is done; seconds or a timedelta.
    """

    def __init__(
        self,
        store: DedupStore,
        key: Callable[[ReceivedMessage], str] | None = None,
        *,
        scope: str = "",
        lease: Duration = LEASE,
        retention: Duration = RETENTION,
    ) -> None:
        self._store = store
        self._key = key or only_key
        self._scope = scope
        self._lease_ms = _positive_ms("lease", lease)
        self._retention_ms = _positive_ms("retention", retention)

    def begin(self, message: ReceivedMessage) -> KeyAttempt:
        """The first phase for a message."""
        key = f"{self._scope}/{self._key(message)}"
        owner = uuid4().hex
        verdict = self._store.begin(key, owner, self._lease_ms)
        return KeyAttempt(verdict, key, self._store, owner, self._retention_ms)

    def guard(
        self, listener: Callable[[G], R], is_done: Callable[[R], bool] = is_consumed
    ) -> Callable[[G], R | Ack | None]:
        """The listener, run once a key; of a key that is done it returns None at once.

        It raises InProgress where the message must come again. When the listener raises, or
        returns what `is_done` denies, the key is free again: by default, an outcome by which the
        message comes again.

        A listener of lists is given those whose keys are free, and not called without any.
        """
        if inspect.iscoroutinefunction(listener):
            raise BadSetting(f"{listener!r} is a coroutine: use guard_async")

        @wraps(listener)
        def guarded(given: G) -> R | Ack | None:
            begun = self._round(given)
            if not begun.may_run:
                return begun.skipped()  # type: ignore[no-any-return]
            try:
                result = listener(begun.given)
                if inspect.iscoroutine(result):  # of what did not look like one
                    result.close()
                    raise BadSetting(f"{listener!r} makes a coroutine: use guard_async")
                return begun.end(result, is_done)  # type: ignore[no-any-return]
            except BaseException:
                begun.release()
                raise

        return guarded

    def guard_async(
        self, listener: Callable[[G], Awaitable[R]], is_done: Callable[[R], bool] = is_consumed
    ) -> Callable[[G], Awaitable[R | Ack | None]]:
        """As `guard`, for a coroutine; a store that blocks is called on a thread.

        A cancelled call frees its key: once it can, if it is cancelled while it begins.
        """

        @wraps(listener)
        async def guarded(given: G) -> R | Ack | None:
            beginning = self._called(partial(self._round, given))
            try:
                begun = await asyncio.shield(beginning)
            except asyncio.CancelledError:
                await asyncio.wait([beginning])
                if beginning.exception() is None:
                    await self._called(beginning.result().release)
                raise
            if not begun.may_run:
                return begun.skipped()  # type: ignore[no-any-return]
            try:
                result = await listener(begun.given)
            except BaseException:  # cancelled, too
                await self._called(begun.release)
                raise
            ended = self._called(partial(begun.end, result, is_done))
            try:
                return await asyncio.shield(ended)
            except Exception:  # of the store, or of is_done
                await self._called(begun.release)
                raise

        return guarded

    def _round(self, given: ReceivedMessage | list[ReceivedMessage]) -> Round:
        if isinstance(given, ReceivedMessage):
            return OneRound(given, self.begin(given))
        return BatchRound.begun(list(given), self.begin)

    def _called(self, work: Callable[[], T]) -> asyncio.Future[T]:
        loop = asyncio.get_running_loop()
        if self._store.blocks:
            return loop.run_in_executor(None, work)
        called: asyncio.Future[T] = loop.create_future()
        try:
            called.set_result(work())
        except Exception as error:  # noqa: BLE001 - raised to who awaits
            called.set_exception(error)
        return called


def only_key(message: ReceivedMessage) -> str:
    """The key of a message that has one; BadMessage if it has none or several."""
    keys = message.keys
    if len(keys) != 1:
        raise BadMessage(
            f"{message!r} has {len(keys)} keys: give Dedup a `key` that makes one of the message"
        )
    return keys[0]


def _positive_ms(name: str, value: Duration) -> int:
    milliseconds = duration_ms(value, name)
    if milliseconds < 1:
        raise BadSetting(f"{name} is {value!r}: it must be at least a millisecond")
    return milliseconds
