"""Requests to the name servers, which all give the same answers."""

from collections.abc import Sequence
from random import Random

from cometmq.errors import BadSetting, StoredState, TimedOut, TooManyRequests, Unreachable
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.headers.base import Header
from cometmq.remoting.pool import Pool


def not_a_name_server(address: str) -> str:
    """Explain that a server answers the request of a name server with "not supported"."""
    return (
        f"{address} is not a name server, it may be a broker: give the address of a name server,"
        " whose default port is 9876"
    )


class NameServers:
    """Uses one name server until it fails, then the next."""

    def __init__(
        self, pool: Pool, addresses: Sequence[str], timeout_ms: int, chance: Random
    ) -> None:
        if not addresses:
            raise BadSetting(
                "no name server: set name_servers or the environment variable NAMESRV_ADDR"
            )
        self._pool = pool
        self._timeout_ms = timeout_ms
        self.addresses = list(addresses)
        chance.shuffle(self.addresses)  # distributes clients over the name servers

    async def ask(self, code: int, header: Header | None = None, body: bytes = b"") -> Command:
        """Return the first response. Raises Unreachable if no name server answers."""
        failures = []
        for address in list(self.addresses):
            try:
                response = await self._pool.invoke(
                    address, code, header, body, timeout_ms=self._timeout_ms
                )
            except (Unreachable, TimedOut, TooManyRequests) as error:
                failures.append(str(error))
            else:
                if response.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    return response
                failures.append(not_a_name_server(address))
            self._put_last(address)
        raise Unreachable(f"no name server answers: {'; '.join(failures)}", stored=StoredState.NO)

    def _put_last(self, address: str) -> None:
        if self.addresses[0] == address:  # else another call has moved it
            self.addresses.append(self.addresses.pop(0))
