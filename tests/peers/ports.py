"""Free TCP ports for servers that are started by tests."""

import os
import random
import socket

# Below the range from which the kernel takes the ports of outgoing connections: a port found free
# here is not handed to a client between the look and the start of the server.
_LOWEST, _HIGHEST = 20_000, 32_000
# Each process of a run has a part for itself: what one has found free, no other one may take before
# the server has started, or while it is down.
_PARTS = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
_PART = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PARTS
_SIZE = (_HIGHEST - _LOWEST) // _PARTS
_FIRST = _LOWEST + _PART * _SIZE
_ATTEMPTS_MAX = 500

_handed_out: set[int] = set()


def free_port() -> int:
    """A port that nobody listens on, given once per process."""
    return _free_group((0,))


def free_broker_port() -> int:
    """A port p for a broker, which takes p - 2 (second port) and p + 1 (replication) as well."""
    return _free_group((-2, 0, 1))


def _free_group(shifts: tuple[int, ...]) -> int:
    for _ in range(_ATTEMPTS_MAX):
        base = random.randrange(_FIRST + 2, _FIRST + _SIZE - 1)
        group = {base + shift for shift in shifts}
        if not group & _handed_out and all(map(_is_free, group)):
            _handed_out.update(group)
            return base
    raise RuntimeError(f"no free port group {shifts} after {_ATTEMPTS_MAX} attempts")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As the servers do: a connection of an earlier server in TIME_WAIT is no hindrance.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("", port))
            probe.listen(1)  # with SO_REUSEADDR it is listen, not bind, that meets the other server
        except OSError:
            return False
    return True


def accepts(port: int, host: str = "127.0.0.1") -> bool:
    """True if something accepts a connection there now."""
    try:
        socket.create_connection((host, port), timeout=1).close()
    except OSError:
        return False
    return True
