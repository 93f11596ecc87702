"""Bare frames over one connection, and what came back.

Both servers get the same bytes. Nothing is retried and nothing is interpreted on the way.
"""

import asyncio
import itertools
import json
import struct
from dataclasses import dataclass, field
from typing import Self

import msgspec

from cometmq.protocol.codes import VERSION, RequestCode
from cometmq.protocol.command import Command, decode_json, response_to
from cometmq.protocol.frame import encode_frame

_ANSWERS = {  # what our side answers when a broker asks it as a client
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: b'{"messageQueueTable":{}}',
    RequestCode.GET_CONSUMER_RUNNING_INFO: b"{}",
    RequestCode.CONSUME_MESSAGE_DIRECTLY: b"{}",
    RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: b"",
}
_PREFIX = struct.Struct(">iI")
_opaques = itertools.count(1)


@dataclass(frozen=True)
class Request:
    """One request as it is sent. `fields` is None if there are no extension fields at all."""

    code: int
    fields: dict[str, object] | None = None
    body: bytes = b""
    flag: int = 0
    head: dict[str, object] = field(default_factory=dict)  # replaces parts of the JSON header

    def frame(self, opaque: int) -> bytes:
        """The bytes."""
        head: dict[str, object] = {
            "code": self.code, "flag": self.flag, "language": "JAVA", "opaque": opaque,
            "serializeTypeCurrentRPC": "JSON", "version": VERSION,
        }  # fmt: skip
        if self.fields is not None:
            head["extFields"] = self.fields
        head |= self.head
        header = json.dumps({k: v for k, v in head.items() if v is not None}).encode()
        return _PREFIX.pack(4 + len(header) + len(self.body), len(header)) + header + self.body


@dataclass(frozen=True)
class Answer:
    """A response; `kind` is "none" without one in time, and "closed" if the connection closed."""

    kind: str
    code: int = 0
    fields: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    remark: str | None = None


class Connection:
    """One connection to a server; a context manager."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self.asked: set[int] = set()  # codes that the server asked this side

    async def __aenter__(self) -> Self:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._port)
        self._task = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *error: object) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)

    async def ask(self, request: Request, wait_s: float) -> Answer:
        """The answer, within a bounded time."""
        if self._task.done():
            return Answer("closed")
        opaque = next(_opaques)
        answered = self._waiting[opaque] = asyncio.get_running_loop().create_future()
        self._writer.write(request.frame(opaque))
        await asyncio.wait([answered, self._task], timeout=wait_s, return_when="FIRST_COMPLETED")
        del self._waiting[opaque]
        if answered.done():
            return answered.result()
        answered.cancel()
        return Answer("closed" if self._task.done() else "none")

    async def _read(self) -> None:
        try:
            while True:
                size, header_size = _PREFIX.unpack(await self._reader.readexactly(8))
                header_size &= 0xFFFFFF
                frame = await self._reader.readexactly(size - 4)
                command = decode_json(frame[:header_size])
                command.body = frame[header_size:]
                self._take(command)
        except (asyncio.IncompleteReadError, ConnectionError):
            return

    def _take(self, command: Command) -> None:
        if not command.is_response:
            self.asked.add(command.code)
            if not command.is_oneway:
                response = response_to(command, 0)
                response.body = _ANSWERS.get(RequestCode(command.code), b"")
                self._writer.write(encode_frame(response))
            return
        waiting = self._waiting.get(command.opaque)
        if waiting is not None and not waiting.done():
            fields = {} if command.fields == b"null" else msgspec.json.decode(command.fields)
            waiting.set_result(
                Answer("answer", command.code, fields or {}, bytes(command.body), command.remark)
            )
