"""The session of a client: its own, which is closed with the client, or a shared one."""

from collections.abc import Iterable
from dataclasses import dataclass

from cometmq.client.config import ClientConfig
from cometmq.client.fields import Optional
from cometmq.client.session.session import Session
from cometmq.errors import BadSetting

_CLIENT = Optional(ClientConfig)
_SESSION = Optional(Session)


@dataclass(frozen=True, slots=True)
class Lease:
    """A session, and whether it is closed with the client."""

    session: Session
    is_own: bool

    async def end(self) -> None:
        """Close the session if it belongs to this client alone."""
        if self.is_own:
            await self.session.close()


def lease(
    name_servers: str | Iterable[str] | None,
    client: ClientConfig | None,
    session: Session | None,
    *,
    keep_name: bool = False,
) -> Lease:
    """Return the session for the arguments of a client, of which at most one is given."""
    if sum(given is not None for given in (name_servers, client, session)) > 1:
        raise BadSetting("name_servers, client and session are mutually exclusive")
    client, session = _CLIENT.check("client", client), _SESSION.check("session", session)
    if session is not None:
        session.check_open()
        return Lease(session, is_own=False)
    if client is None:
        client = ClientConfig(name_servers=name_servers)
    return Lease(Session.own(client, keep_name=keep_name), is_own=True)
