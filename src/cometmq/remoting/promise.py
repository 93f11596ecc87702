"""A future value without a task: callbacks run in the call that sets it.

A task and its coroutine cost 8 us for each send that waits for the disk, and there are thousands;
this costs 1 (bench/broker.py).
"""

import asyncio
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar, cast

T = TypeVar("T")


class Promise(Generic[T]):
    """Set once, with a value. It can be awaited, too."""

    __slots__ = ("_kept", "_told", "_value")

    def __init__(self) -> None:
        self._kept = False
        self._value: T | None = None
        self._told: list[Callable[[T], None]] = []

    def keep(self, value: T) -> None:
        assert not self._kept, "a promise is kept once"
        self._kept, self._value = True, value
        told, self._told = self._told, []
        for tell in told:
            tell(value)

    def then(self, tell: Callable[[T], None]) -> None:
        """Call with the value when it is set, or now if it is. Callbacks run in order."""
        if self._kept:
            tell(cast(T, self._value))
        else:
            self._told.append(tell)

    def __await__(self) -> Generator[Any, None, T]:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self.then(lambda value: None if future.done() else future.set_result(value))
        return future.__await__()
