"""A client that costs little: a blocking socket, frames made beforehand, answers counted unread."""

import socket
import struct
from collections.abc import Sequence

from cometmq.protocol.command import Command
from cometmq.protocol.frame import FrameDecoder, encode_frame
from cometmq.protocol.headers.base import Header, write_header

_SIZE = struct.Struct(">i").unpack_from
_SUCCESS = b'{"code":0,'
_NOTICE = b'{"code":40,'  # the members of a group have changed: asked of us, not answered
_READ_SIZE = 1 << 20


def request(code: int, header: Header | None = None, body: bytes = b"", opaque: int = 0) -> bytes:
    """The frame of a request, as a Java client writes it."""
    return encode_frame(
        Command(
            code=code, opaque=opaque, language="JAVA", version=407,
            fields=write_header(header), body=body,
        )
    )  # fmt: skip


class RawClient:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = b""

    def ask(self, code: int, header: Header | None = None, body: bytes = b"") -> Command:
        """One request and its answer, which must be a success."""
        self.write(request(code, header, body))
        decoder = FrameDecoder()
        while True:
            for response in decoder.feed(self._socket.recv(_READ_SIZE)):
                if not response.is_response:
                    continue
                assert response.code == 0, response.remark
                return response

    def write(self, frames: bytes) -> None:
        """Send, and wait for nothing."""
        self._socket.sendall(frames)

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    def answers(self) -> tuple[int, int]:
        """Wait for more bytes: how many answers they complete, and how many of these are good."""
        data = self._socket.recv(_READ_SIZE)
        assert data, "the server closed the connection"
        data = self._unread + data if self._unread else data
        at, end, count, good = 0, len(data), 0, 0
        while end - at >= 4 and end - at >= (size := 4 + _SIZE(data, at)[0]):
            if not data.startswith(_NOTICE, at + 8):
                good += data.startswith(_SUCCESS, at + 8)
                count += 1
            at += size
        self._unread = data[at:]
        return count, good

    def answered(self, wanted: int) -> int:
        """Wait for so many answers; how many are good."""
        answered = good = 0
        while answered < wanted:
            count, successes = self.answers()
            answered += count
            good += successes
        return good

    def flood(self, frames: Sequence[bytes], in_flight: int) -> int:
        """Send all frames, so many unanswered at any time; how many of the answers are good."""
        sent = answered = good = 0
        while answered < len(frames):
            room = min(in_flight - (sent - answered), len(frames) - sent)
            if room:
                self.write(frames[sent] if room == 1 else b"".join(frames[sent : sent + room]))
                sent += room
            count, successes = self.answers()
            answered += count
            good += successes
        return good

    def close(self) -> None:
        """Leave."""
        self._socket.close()
