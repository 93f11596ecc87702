"""A recording TCP proxy: it stands before a server and keeps the frames that pass, both ways.

A frame is cut by its length prefix and forwarded whole. A response is filed under the code of the
request it answers, found by its opaque number.
"""

import asyncio
import contextlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

FRAME_SIZE_MAX = 16 << 20
_RESPONSE_FLAG, _ONEWAY_FLAG = 1, 2
_BINARY_HEAD = struct.Struct(">hBhii")  # code, language, version, opaque, flag


@dataclass(frozen=True)
class Captured:
    """One frame that passed."""

    sender: str
    receiver: str
    request_code: int
    header: dict[str, Any]
    data: bytes  # as sent, with the length prefix

    @property
    def is_response(self) -> bool:
        """True for an answer."""
        return bool(self.header["flag"] & _RESPONSE_FLAG)

    @property
    def name(self) -> str:
        """What makes it a frame of its own kind: code, way, and for an answer its response code."""
        way = f"{self.sender}-to-{self.receiver}"
        if self.is_response:
            return f"{self.request_code}/response_{self.header['code']}/{way}"
        kind = "oneway" if self.header["flag"] & _ONEWAY_FLAG else "request"
        return f"{self.request_code}/{kind}/{way}"


@dataclass
class Recorder:
    """The frames of several proxies. Connections opened from now on belong to `client`."""

    client: str = "client"
    frames: list[Captured] = field(default_factory=list)


class Proxy:
    """Listens on a port and forwards to another, writing down in the recorder what passes.

    `replace` maps bytes to others of the same length, put in their place on the way to the server:
    with it a broker registers under the address of the proxy that stands before it.
    """

    def __init__(
        self,
        recorder: Recorder,
        server: str,
        target_port: int,
        port: int,
        replace: Mapping[bytes, bytes] | None = None,
    ) -> None:
        self._recorder = recorder
        self._server_name = server
        self._target_port = target_port
        self._replace = dict(replace or {})
        assert all(len(old) == len(new) for old, new in self._replace.items())
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = port
        self.address = f"127.0.0.1:{port}"

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *error: object) -> None:
        self._listener.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        client = self._recorder.client
        try:
            there = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.close()
            return
        # Who asked what: an opaque number is unique only among the requests of one side.
        asked_by_client: dict[int, int] = {}
        asked_by_server: dict[int, int] = {}
        ways = (
            self._forward(
                reader,
                there[1],
                client,
                self._server_name,
                self._replace,
                asked_by_client,
                asked_by_server,
            ),
            self._forward(
                there[0], writer, self._server_name, client, {}, asked_by_server, asked_by_client
            ),
        )
        for way in ways:
            task = asyncio.create_task(way)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _forward(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        sender: str,
        receiver: str,
        replace: Mapping[bytes, bytes],
        asked: dict[int, int],
        asked_by_other: dict[int, int],
    ) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                prefix = await reader.readexactly(4)
                size = int.from_bytes(prefix, "big")
                assert size <= FRAME_SIZE_MAX, f"{sender} sent no frame but {prefix!r}"
                data = prefix + await reader.readexactly(size)
                header = read_header(data)
                if header["flag"] & _RESPONSE_FLAG:
                    code = asked_by_other.pop(header["opaque"], -1)
                else:
                    code = asked[header["opaque"]] = header["code"]
                self._recorder.frames.append(Captured(sender, receiver, code, header, data))
                for old, new in replace.items():
                    data = data.replace(old, new)
                writer.write(data)
                await writer.drain()
        writer.close()


def read_header(frame: bytes) -> dict[str, Any]:
    """Header of a whole frame: all of a JSON one, the fixed numbers of a binary one."""
    size = int.from_bytes(frame[5:8], "big")
    text = frame[8 : 8 + size]
    if frame[4] == 0:
        return json.loads(text)
    code, language, version, opaque, flag = _BINARY_HEAD.unpack_from(text)
    return {"code": code, "language": language, "version": version, "opaque": opaque, "flag": flag}
