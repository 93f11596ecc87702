"""A session that blocking clients share."""

from collections.abc import Callable
from typing import Self

from cometmq.client.config import ClientConfig
from cometmq.client.loop import loop_thread
from cometmq.client.session import session as awaited
from cometmq.client.session.connections import OnConnection


class Session:
    """Connections, routes and heartbeats that several blocking clients share.

    To share a session, pass it to each client and close it after them::

        with Session(ClientConfig(name_servers="127.0.0.1:9876")) as session:
            with Producer("shop", session=session) as producer:
                ...

    Args:
        config: Settings that the clients share.
    """

    def __init__(self, config: ClientConfig) -> None:
        self.core = awaited.Session(config)  # only the loop's thread may use it
        self._loop = loop_thread()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def client_id(self) -> str:
        """The id by which brokers know this client: `ip@instance`."""
        return self.core.client_id

    def on_connection(self, callback: OnConnection) -> Callable[[], None]:
        """Call `callback` when a broker or name server is connected, disconnected or reconnected.

        As `cometmq.Session.on_connection`; the callback runs on the thread of the event loop.
        """
        return self.core.on_connection(callback)

    def close(self) -> None:
        """Close all connections. Further calls do nothing."""
        self._loop.wait(self.core.close())


# A blocking client accepts either.
SharedSession = Session | awaited.Session


def core_of(session: SharedSession | None) -> awaited.Session | None:
    """Return the asynchronous session."""
    return session.core if isinstance(session, Session) else session
