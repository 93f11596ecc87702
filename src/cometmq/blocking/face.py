"""How a class whose methods are awaited becomes one whose methods wait.

A face is a table: each name with the method that it waits for, whose signature and text it has.
"""

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from cometmq.client.loop import loop_thread

P = ParamSpec("P")
T = TypeVar("T")


class Client(Protocol):
    """What every client can."""

    async def start(self) -> None:
        """Begin."""

    async def close(self) -> None:
        """End."""


C = TypeVar("C", bound=Client)


class Face(Generic[C]):
    """Base of all faces. Any thread may use it; several at once too."""

    def __init__(self, core: C) -> None:
        self._core = core  # the client itself; only the loop's thread may touch it
        self._loop = loop_thread()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def start(self) -> None:
        """Begin, once only."""
        self._loop.wait(self._core.start())

    def close(self) -> None:
        """End what is begun, then leave. May be called again."""
        self._loop.wait(self._core.close())


def waits(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Face[Any], P], T]:
    """The face of a method that is awaited."""

    @wraps(method)
    def call(face: Face[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return face._loop.wait(method(face._core, *args, **kwargs))  # noqa: SLF001 - of this file

    return call


def posts(method: Callable[Concatenate[Any, P], None]) -> Callable[Concatenate[Face[Any], P], None]:
    """The face of a method that begins something on the loop, and does not wait for it."""

    @wraps(method)
    def call(face: Face[Any], /, *args: P.args, **kwargs: P.kwargs) -> None:
        face._loop.post(partial(method, face._core, *args, **kwargs))  # noqa: SLF001 - of this file

    return call


def calls(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Face[Any], P], T]:
    """The face of a method that does not wait, but that only the loop's thread may call."""

    @wraps(method)
    def call(face: Face[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def there() -> T:
            return method(face._core, *args, **kwargs)  # noqa: SLF001 - of this file

        return face._loop.wait(there())  # noqa: SLF001 - of this file

    return call
