"""The session that blocking clients of one program may share."""

from collections.abc import Callable
from typing import Self

from cometmq.client.config import ClientConfig
from cometmq.client.loop import loop_thread
from cometmq.client.session import session as awaited
from cometmq.client.session.connections import OnConnection


class Session:
    """`cometmq.Session`, given to several blocking clients; closed after them."""

    def __init__(self, config: ClientConfig) -> None:
        self.core = awaited.Session(config)  # only the loop's thread may touch it
        self._loop = loop_thread()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def client_id(self) -> str:
        """Who its clients are to brokers."""
        return self.core.client_id

    def on_connection(self, callback: OnConnection) -> Callable[[], None]:
        """Call `callback` when a broker or name server is connected, disconnected or reconnected.

        As `cometmq.Session.on_connection`; the callback runs on the thread of the event loop.
        """
        return self.core.on_connection(callback)

    def close(self) -> None:
        """End all connections. May be called again."""
        self._loop.wait(self.core.close())


# What a blocking client takes.
SharedSession = Session | awaited.Session


def core_of(session: SharedSession | None) -> awaited.Session | None:
    """As the clients behind the faces take it."""
    return session.core if isinstance(session, Session) else session
