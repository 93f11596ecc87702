"""The file of a table: written as a whole, in a thread."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from cometmq.background import Background
from cometmq.errors import Malformed
from cometmq.protocol.java.fastjson import Body, loads, standard_json
from cometmq.protocol.java.pretty import pretty
from cometmq.protocol.limits import DIALECT_SIZE_MAX
from cometmq.seams import Disk
from cometmq.store.state_file import StateFile

B = TypeVar("B", bound=Body)


class KeptTable:
    """The file of a table. `body` returns the current content."""

    def __init__(self, disk: Disk, path: Path, body: Callable[[], Body]) -> None:
        self._disk = disk
        self._file = StateFile(disk, path)
        self._body = body
        self._version = self._saved = 0
        self._writing: asyncio.Task[None] | None = None
        self._is_soon = False

    def read(self, shape: type[B]) -> B | None:
        """The content of the file; None if the file is missing."""
        return self._file.read(lambda content: loads(_readable(content), shape))

    def set_aside(self) -> None:
        """Rename a damaged file and its backup, so that the next save writes a new one."""
        self._file.set_aside()

    def changed(self) -> None:
        """Note that the table differs from its file."""
        self._version += 1

    @property
    def is_saved(self) -> bool:
        """Whether the file has all changes of the table."""
        return self._saved == self._version

    async def save(self) -> None:
        """Return when all changes before the call are on disk. Raises OSError."""
        wanted = self._version
        while self._saved < wanted:
            if self._writing is None:
                self._writing = asyncio.get_running_loop().create_task(self._write())
            await asyncio.shield(self._writing)

    def save_soon(self, background: Background) -> None:
        """Save all changes in the background, also those made meanwhile."""
        if not self._is_soon:
            self._is_soon = True
            background.start(self._save_all(), "saving a table")

    async def _save_all(self) -> None:
        try:
            while not self.is_saved:
                await self.save()
        finally:
            self._is_soon = False

    async def _write(self) -> None:
        try:
            version, content = self._version, pretty(self._body())
            await asyncio.wrap_future(self._disk.begin(partial(self._file.write, content)))
            self._saved = version
        finally:
            self._writing = None


def _readable(content: bytes) -> bytes:
    """The bound on bodies that must be rewritten is for peers: a file of ours may be larger."""
    if len(content) <= DIALECT_SIZE_MAX:
        return content
    try:
        return standard_json(content.decode()).encode()
    except UnicodeDecodeError as error:
        raise Malformed(f"it is no text: {error}") from error
