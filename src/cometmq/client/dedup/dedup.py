"""Idempotent consumption: a function runs once for each business key.

There are two phases. Before the function runs, its key is stored as in progress, for the lease
time; after it has returned, as done, for the retention time. For a message whose key is

    unknown, or in progress for longer than the lease      the function runs
    done                                                   the message is skipped
    in progress                                            the message is redelivered later

If a process dies between the phases, the message is processed again after the lease. So a function
that has side effects and dies before the second phase runs twice, unless it stores a mark of the
key in the same transaction as its effects.
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

LEASE = timedelta(minutes=15)  # the default consume_timeout
RETENTION = timedelta(days=3)  # brokers delete messages after that time by default

G = TypeVar("G", ReceivedMessage, list[ReceivedMessage])
R = TypeVar("R")
T = TypeVar("T")


def is_consumed(result: object) -> bool:
    """True unless the result is an outcome that redelivers the message."""
    if isinstance(result, Ack):
        return result.count != 0
    return not isinstance(result, Retry | Suspend | Rollback)


class Dedup:
    """Run a function once for each business key.

        dedup = Dedup(SqliteStore("seen.db"))
        consumer.on("orders")(dedup.guard_async(charge))

    Args:
        store: Stores the keys: `MemoryStore` for one process, `SqliteStore` for one machine.
        key: Returns the business key of a message; by default its only key.
        scope: Separates the keys of groups that share a store.
        lease: Seconds or a timedelta after which a key in progress may be processed again, because
            its process may have died. Make it longer than the function runs.
        retention: Seconds or a timedelta for which done keys are stored.

    Raises:
        BadSetting: `lease` or `retention` is shorter than a millisecond.
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
        """Acquire the key of a message: the first phase."""
        key = f"{self._scope}/{self._key(message)}"
        owner = uuid4().hex
        verdict = self._store.begin(key, owner, self._lease_ms)
        return KeyAttempt(verdict, key, self._store, owner, self._retention_ms)

    def guard(
        self, listener: Callable[[G], R], is_done: Callable[[R], bool] = is_consumed
    ) -> Callable[[G], R | Ack | None]:
        """Wrap a plain function so that it runs once for each key.

        The wrapped function returns None if the key is done, and raises InProgress if the message
        must be redelivered. If `listener` raises, or if `is_done(result)` is False, the key is
        free again. By default, outcomes that redeliver a message are not done.

        A function of lists receives the messages whose keys are free; it is not called if there
        are none.

        Raises:
            BadSetting: `listener` is a coroutine function.
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
                if inspect.iscoroutine(result):  # of a callable that did not look like one
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
        """Wrap a coroutine function so that it runs once for each key; see `guard`.

        A store that blocks is called in a thread. A cancelled call frees its key.
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
            except BaseException:  # also CancelledError
                await self._called(begun.release)
                raise
            ended = self._called(partial(begun.end, result, is_done))
            try:
                return await asyncio.shield(ended)
            except Exception:  # raised by the store or by is_done
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
        except Exception as error:  # noqa: BLE001 - the awaiting caller gets it
            called.set_exception(error)
        return called


def only_key(message: ReceivedMessage) -> str:
    """The key of a message with exactly one key. Raises BadMessage for others."""
    keys = message.keys
    if len(keys) != 1:
        raise BadMessage(f"{message!r} has {len(keys)} keys: give Dedup a `key` function")
    return keys[0]


def _positive_ms(name: str, value: Duration) -> int:
    milliseconds = duration_ms(value, name)
    if milliseconds < 1:
        raise BadSetting(f"{name} is {value!r}: it must be at least a millisecond")
    return milliseconds
