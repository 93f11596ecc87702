"""The two ports of a broker: the second one, for clients with `vipChannelEnabled`, is 2 below."""

import socket

from cometmq.errors import CannotListen
from cometmq.remoting.server import Server

_VIP_BELOW = 2
_PORTS_TRIED_MAX = 50  # with port 0 the system chooses, until both are free


def bind_ports(server: Server, host: str, port: int) -> tuple[socket.socket, socket.socket]:
    """Bind both. Raises CannotListen."""
    if 0 < port <= _VIP_BELOW:
        raise CannotListen(f"port {port} has none {_VIP_BELOW} below it", "listenPort")
    for _ in range(_PORTS_TRIED_MAX):
        main = server.bind(host, port)
        try:
            below = int(main.getsockname()[1]) - _VIP_BELOW
            return main, server.bind(host, below)
        except CannotListen:
            if port:
                raise
            main.close()
    raise CannotListen(f"no two free ports on {host}", "listenPort")
