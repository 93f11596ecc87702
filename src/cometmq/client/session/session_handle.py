"""The session of one client: its own, made for it and closed with it, or one that others share."""

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
    """A session, and whether it ends with the client."""

    session: Session
    is_own: bool

    async def end(self) -> None:
        """Close it, if it was made for this client."""
        if self.is_own:
            await self.session.close()


def lease(
    name_servers: str | Iterable[str] | None,
    client: ClientConfig | None,
    session: Session | None,
    *,
    keep_name: bool = False,
) -> Lease:
    """Of what a client was given: a session, or settings, or name servers, or none of them."""
    if sum(given is not None for given in (name_servers, client, session)) > 1:
        raise BadSetting("give one of name_servers, client and session: each says it all")
    client, session = _CLIENT.check("client", client), _SESSION.check("session", session)
    if session is not None:
        session.check_open()
        return Lease(session, is_own=False)
    if client is None:
        client = ClientConfig(name_servers=name_servers)
    return Lease(Session.own(client, keep_name=keep_name), is_own=True)
