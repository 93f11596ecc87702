"""One blocking connection to a name server or broker. A Spark worker does one thing at a time.

Requests may be sent ahead: their answers are kept apart by number. The body of an answer is a view
of the bytes as they came.
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
_KEPT_MAX = 64  # answers that came before the one that is waited for


@dataclass(frozen=True, slots=True)
class Access:
    """How servers are spoken to: may be a key, and be sent to a worker."""

    access_key: str = ""
    secret_key: str = ""
    tls: bool = False
    timeout_ms: int = 10_000


class BlockingLink:
    """See the top of the file. Unreachable or TimedOut, and it is of no more use."""

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
                from cometmq.remoting.tls import client_context  # 8 ms to load, for few

                # As Java's client does by default: servers come with a certificate of their own.
                made = client_context(verify=False).wrap_socket(made, server_hostname=host)
            made.settimeout(self._timeout_ms / 1000)
        except (OSError, ValueError) as error:
            raise Unreachable(f"no connection to {self.address}: {error}") from error
        return made

    def ask(self, code: int, header: Header | None = None, body: bytes = b"") -> Command:
        """One request and its answer, whatever it says."""
        return self.answer(self.send(code, header, body))

    def send(self, code: int, header: Header | None = None, body: bytes = b"") -> int:
        """A request, by the number of which its answer is asked for."""
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
        """Wait for it."""
        while opaque not in self._early:
            response = self._read()
            if not response.is_response:
                continue  # what a broker asks of clients is not for us
            if response.opaque in self._abandoned:
                self._abandoned.remove(response.opaque)
                continue
            self._early[response.opaque] = response
            assert len(self._early) <= _KEPT_MAX, "answers nobody asks for"
        return self._early.pop(opaque)

    def granted(self, response: Command) -> Command:
        """The answer of a broker; Refused if it says no."""
        if response.code != ResponseCode.SUCCESS:
            raise refusal_of(response, f"broker {self.address}")
        return response

    def abandon(self, opaque: int) -> None:
        """Nobody will ask for this answer."""
        if self._early.pop(opaque, None) is None:
            self._abandoned.add(opaque)

    def close(self) -> None:
        """End it."""
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
            (command,) = FrameDecoder().feed(cast(bytes, frame))  # a body is not copied again
        except (Malformed, TooLarge, ValueError) as error:
            self.close()
            raise Malformed(f"{self.address} sent no frame: {error}") from error
        return command

    def _filled(self, room: memoryview) -> memoryview:
        at = 0
        try:
            while at < len(room):
                got = self._socket.recv_into(room[at:])
                if not got:
                    raise ConnectionResetError("it closed the connection")
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
    """Connections by address, kept for the next task: worker processes are used again."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._links: dict[str, BlockingLink] = {}

    def to(self, address: str) -> BlockingLink:
        """The one there is, or a new one."""
        link = self._links.get(address)
        if link is None or not link.is_open:
            link = self._links[address] = BlockingLink(address, self._access)
        return link

    def close(self) -> None:
        """All of them."""
        for link in self._links.values():
            link.close()
        self._links.clear()

    @property
    def has_broken(self) -> bool:
        """If one of them is of no more use."""
        return any(not link.is_open for link in self._links.values())


_kept: dict[tuple[int, Access], Links] = {}


def links_of(access: Access) -> Links:
    """Those of this process: a forked one has none of its parent's."""
    mine = os.getpid(), access
    if mine not in _kept:
        for stranger in [key for key in _kept if key[0] != mine[0]]:
            del _kept[stranger]
        _kept[mine] = Links(access)
    return _kept[mine]
