"""`host:port`, as settings and routes write it."""

from cometmq.errors import StoredState, Unreachable


def parse_address(address: str) -> tuple[str, int]:
    """Host and port of `host:port`; an IPv6 host may stand in brackets."""
    host, _, port = address.rpartition(":")
    is_number = port.isascii() and port.isdigit() and len(port) <= 5
    if not host or not is_number or int(port) > 65535:
        raise Unreachable(f"{address!r} is not host:port", stored=StoredState.NO)
    return host.removeprefix("[").removesuffix("]"), int(port)
