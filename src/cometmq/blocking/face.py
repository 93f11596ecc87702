"""Derives blocking classes from asynchronous ones.

A face is a table of methods: each has the name, signature and docstring of the asynchronous method
that it runs on the event loop's thread.
"""

from collections.abc import Callable, Coroutine
from functools import partial, wraps
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, Self, TypeVar

from cometmq.client.loop import loop_thread

P = ParamSpec("P")
T = TypeVar("T")


class Client(Protocol):
    """The life cycle that every client has."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...


C = TypeVar("C", bound=Client)


class Face(Generic[C]):
    """Base of all faces; thread-safe."""

    def __init__(self, core: C) -> None:
        self._core = core  # the asynchronous client; only the loop's thread may use it
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
        """Start the client. It can be started once; `with` does it."""
        self._loop.wait(self._core.start())

    def close(self) -> None:
        """Finish work in flight and close. Further calls do nothing; `with` does it."""
        self._loop.wait(self._core.close())


def waits(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Face[Any], P], T]:
    """Derive a method that waits for a coroutine."""

    @wraps(method)
    def call(face: Face[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return face._loop.wait(method(face._core, *args, **kwargs))  # noqa: SLF001 - of this file

    return call


def posts(method: Callable[Concatenate[Any, P], None]) -> Callable[Concatenate[Face[Any], P], None]:
    """Derive a method that starts a call on the loop and returns immediately."""

    @wraps(method)
    def call(face: Face[Any], /, *args: P.args, **kwargs: P.kwargs) -> None:
        face._loop.post(partial(method, face._core, *args, **kwargs))  # noqa: SLF001 - of this file

    return call


def calls(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Face[Any], P], T]:
    """Derive a method that runs a plain function on the loop's thread."""

    @wraps(method)
    def call(face: Face[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def there() -> T:
            return method(face._core, *args, **kwargs)  # noqa: SLF001 - of this file

        return face._loop.wait(there())  # noqa: SLF001 - of this file

    return call
