"""The IP address of this machine, which brokers advertise and client ids begin with."""

import socket

_PROBE = ("192.0.2.1", 9)  # TEST-NET-1: connecting a UDP socket looks up a route, sends nothing
LOOPBACK = "127.0.0.1"


def local_ip() -> str:
    """The address of the interface with the default route; the loopback address without one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(_PROBE)
        except OSError:
            return LOOPBACK
        ip: str = probe.getsockname()[0]
        return ip
