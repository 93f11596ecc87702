"""A blocking connection to a name server or broker, for Spark workers, which have one thread.

Requests can be pipelined: responses are matched by their opaque number. The body of a response is a
view of the received bytes.
"""

import os
import socket
import struct
from dataclasses import dataclass
from itertools import count
from typing import cast

from cometmq.client.session.signing import Signing
from cometmq.errors import Malformed, TimedOut, TooLarge, Unreachable
from cometmq.protocol.codes import LANGUAGE, VERSION, ResponseCode
from cometmq.protocol.command import Command
from cometmq.protocol.frame import FrameDecoder, encode_frame
from cometmq.protocol.headers.base import Header, write_header
from cometmq.protocol.limits import CONNECT_MS_MAX, FRAME_SIZE_MAX
from cometmq.protocol.refusal import refusal_of
from cometmq.remoting.address import parse_address

_SIZE = struct.Struct(">I")
_OPAQUE_BITS = 0x7FFFFFFF
_EARLY_MAX = 64  # responses that arrived before the awaited one
# The broker has rejected the request for now; a later attempt may succeed.
BUSY_CODES = frozenset(
    {ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE, ResponseCode.FLOW_CONTROL}
)


@dataclass(frozen=True, slots=True)
class Access:
    """Credentials, TLS and timeout of connections. Hashable, and can be sent to a worker."""

    access_key: str = ""
    secret_key: str = ""
    tls: bool = False
    timeout_ms: int = 10_000


class BlockingLink:
    """One connection. After Unreachable or TimedOut it is closed and cannot be used again."""

    def __init__(self, address: str, access: Access) -> None:
        self.address = address
        self._timeout_ms = access.timeout_ms
        self._signing = Signing(access.access_key, access.secret_key) if access.access_key else None
        self._opaques = count(1)
        self._early: dict[int, Command] = {}
        self._abandoned: set[int] = set()
        self.is_open = False
        self._socket = self._connected(access.tls)
        self.is_open = True

    def _connected(self, tls: bool) -> socket.socket:
        host, port = parse_address(self.address)
        try:
            made = socket.create_connection((host, port), CONNECT_MS_MAX / 1000)
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if tls:
                from cometmq.remoting.tls import client_context  # 8 ms to load, rarely needed

                # Like Java's client by default: servers have self-signed certificates.
                made = client_context(verify=False).wrap_socket(made, server_hostname=host)
            made.settimeout(self._timeout_ms / 1000)
        except (OSError, ValueError) as error:
            raise Unreachable(f"no connection to {self.address}: {error}") from error
        return made

    def ask(self, code: int, header: Header | None = None, body: bytes = b"") -> Command:
        """Send a request and return its response, whatever its code."""
        return self.answer(self.send(code, header, body))

    def send(self, code: int, header: Header | None = None, body: bytes = b"") -> int:
        """Send a request and return its opaque number, with which `answer` finds the response."""
        request = Command(
            code=code,
            opaque=next(self._opaques) & _OPAQUE_BITS,
            language=LANGUAGE,
            version=VERSION,
            fields=write_header(header),
            body=body,
        )
        if self._signing is not None:
            self._signing.before(self.address, request)
        try:
            self._socket.sendall(encode_frame(request))
        except OSError as error:
            raise self._broken(error) from error
        return request.opaque

    def answer(self, opaque: int) -> Command:
        """Wait for the response to a request."""
        while opaque not in self._early:
            response = self._read()
            if not response.is_response:
                continue  # requests of brokers to clients are ignored
            if response.opaque in self._abandoned:
                self._abandoned.remove(response.opaque)
                continue
            self._early[response.opaque] = response
            assert len(self._early) <= _EARLY_MAX, "too many responses that nobody reads"
        return self._early.pop(opaque)

    def granted(self, response: Command) -> Command:
        """Return the response of a broker; Refused unless it is a success."""
        if response.code != ResponseCode.SUCCESS:
            raise refusal_of(response, f"broker {self.address}")
        return response

    def abandon(self, opaque: int) -> None:
        """Discard the response to a request, now or when it arrives."""
        if self._early.pop(opaque, None) is None:
            self._abandoned.add(opaque)

    def close(self) -> None:
        """Close the connection."""
        self.is_open = False
        self._socket.close()

    def _read(self) -> Command:
        head = self._filled(memoryview(bytearray(_SIZE.size)))
        (size,) = _SIZE.unpack(head)
        if size > FRAME_SIZE_MAX:
            self.close()
            raise Malformed(
                f"{self.address} sent a frame of {size} bytes: is it a RocketMQ server?"
            )
        frame = memoryview(bytearray(_SIZE.size + size))
        frame[: _SIZE.size] = head
        self._filled(frame[_SIZE.size :])
        try:
            (command,) = FrameDecoder().feed(cast(bytes, frame))  # does not copy the body
        except (Malformed, TooLarge, ValueError) as error:
            self.close()
            raise Malformed(f"{self.address} sent a malformed frame: {error}") from error
        return command

    def _filled(self, room: memoryview) -> memoryview:
        at = 0
        try:
            while at < len(room):
                got = self._socket.recv_into(room[at:])
                if not got:
                    raise ConnectionResetError("the peer closed the connection")
                at += got
        except OSError as error:
            raise self._broken(error) from error
        return room

    def _broken(self, error: OSError) -> Unreachable | TimedOut:
        self.close()
        if isinstance(error, TimeoutError):
            return TimedOut(f"{self.address} did not answer in {self._timeout_ms} ms")
        return Unreachable(f"the connection to {self.address} broke: {error}")


class Links:
    """Connections by address. They are reused by later tasks of the same worker process."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._links: dict[str, BlockingLink] = {}

    def to(self, address: str) -> BlockingLink:
        """Return the open connection to an address, or open one."""
        link = self._links.get(address)
        if link is None or not link.is_open:
            link = self._links[address] = BlockingLink(address, self._access)
        return link

    def close(self) -> None:
        """Close all connections."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    @property
    def has_broken(self) -> bool:
        """Whether a connection has failed since it was opened."""
        return any(not link.is_open for link in self._links.values())


_pools: dict[tuple[int, Access], Links] = {}


def links_of(access: Access) -> Links:
    """Return the connections of this process. A forked process does not use its parent's."""
    mine = os.getpid(), access
    if mine not in _pools:
        for stranger in [key for key in _pools if key[0] != mine[0]]:
            del _pools[stranger]
        _pools[mine] = Links(access)
    return _pools[mine]
