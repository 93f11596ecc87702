"""A file that holds a table, with its previous version in `.bak`, as in Apache RocketMQ 4.9.7.

Apache writes neither durably: after a power cut its topics may be an empty file. Here a crash
leaves the old or the new content, and a damaged file is read from its .bak.
"""

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from cometmq.errors import BadState, Malformed
from cometmq.seams import Disk

log = logging.getLogger(__name__)

T = TypeVar("T")


class StateFile:
    """One file of the folder `config/`, and its backup."""

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._backup = path.with_name(path.name + ".bak")
        self._is_damaged = False  # then `write` must not overwrite the good .bak

    def read(self, parse: Callable[[bytes], T]) -> T | None:
        """The parsed content; None if the file is missing. `parse` raises Malformed."""
        # A deletion, even of nothing, syncs the folder: the name of what is read here may be one
        # that a killed process left in memory alone.
        self._disk.delete(self._path.with_name("none"))
        damages = []
        for path in (self._path, self._backup):
            try:
                found = parse(self._disk.read(path))
            except FileNotFoundError:
                continue
            except Malformed as error:
                damages.append(f"{path} is damaged: {error}")
                continue
            if damages:
                self._is_damaged = True
                log.error("%s; %s is used in its place", damages[0], path)
            return found
        if damages:
            no_backup = "" if len(damages) > 1 else ", and has no .bak"
            raise BadState(f"{' and '.join(damages)}{no_backup}; repair it or move it away")
        return None

    def set_aside(self) -> None:
        """Rename the file and its .bak to `*.damaged`; the next `read` returns None."""
        for path in (self._path, self._backup):
            with suppress(FileNotFoundError):
                self._disk.move(path, path.with_name(path.name + ".damaged"))

    def write(self, content: bytes) -> None:
        """Write durably. The previous content, unless it was damaged, goes to .bak."""
        try:
            before = self._disk.read(self._path)
        except FileNotFoundError:
            before = b""
        if before and before != content and not self._is_damaged:
            self._disk.replace(self._backup, before)
        self._disk.replace(self._path, content)
        self._is_damaged = False
