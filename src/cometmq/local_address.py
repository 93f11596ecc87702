"""The address of this machine: a broker is reached at it, and client ids begin with it."""

import socket

_ELSEWHERE = ("192.0.2.1", 9)  # of a net that is nowhere: no packet is sent, a route is looked up
LOOPBACK = "127.0.0.1"


def local_ip() -> str:
    """The address that leaves this machine; the loopback's, if none does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_ELSEWHERE)
        except OSError:
            return LOOPBACK
        ip: str = probe.getsockname()[0]
        return ip
