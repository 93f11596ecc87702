"""A table with a version, persisted in a file. Owners of copies are notified of changes."""

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

import msgspec

from cometmq.broker.tables.table_file import KeptTable
from cometmq.log_event import LogEvent
from cometmq.protocol.bodies.tables import DataVersion
from cometmq.protocol.java.fastjson import Body
from cometmq.seams import Clock, Disk

log = logging.getLogger(__name__)

C = TypeVar("C", bound=Body)


class VersionedTable(ABC, Generic[C]):
    """The base of the tables of topics and groups."""

    def __init__(self, disk: Disk, path: Path, clock: Clock) -> None:
        self._clock = clock
        self._entries: dict[str, C] = {}
        self._version = DataVersion()
        self._listeners: list[Callable[[], None]] = []
        self.file = KeptTable(disk, path, lambda: self.body)
        self.get = self._entries.get  # a send asks once, and a dict answers soonest

    @property
    @abstractmethod
    def body(self) -> Body:
        """The whole table, as sent to slaves and written to the file."""

    @abstractmethod
    def _name_of(self, entry: C) -> str:
        """The key of a row."""

    @abstractmethod
    def _check(self, name: str) -> str:
        """Return the name. Raises BadName."""

    @property
    def version(self) -> DataVersion:
        """It differs after each change."""
        return self._version

    def on_change(self, changed: Callable[[], None]) -> None:
        """Register a callback for changes."""
        self._listeners.append(changed)

    def names(self) -> list[str]:
        return list(self._entries)

    def put(self, entry: C) -> None:
        """Create or change an entry. It is on disk after `file.save`."""
        name = self._check(self._name_of(entry))
        if self._entries.get(name) == entry:
            return
        event = "changed" if name in self._entries else "created"
        self._entries[name] = entry
        kind = type(entry).__name__.removesuffix("Config").lower()
        log.info(LogEvent(f"{kind} {event}", **msgspec.structs.asdict(entry)))
        self.touch()

    def keep(self, entry: C) -> None:
        """Create an entry unless it exists, once the request that needs it has succeeded."""
        if self._name_of(entry) not in self._entries:
            self.put(entry)

    def delete(self, name: str) -> bool:
        """Remove an entry. Returns whether it existed."""
        entry = self._entries.pop(name, None)
        if entry is None:
            return False
        kind = type(entry).__name__.removesuffix("Config").lower()
        log.info(LogEvent(f"{kind} deleted", name=name))
        self.touch()
        return True

    def touch(self) -> None:
        """Increment the version and run the callbacks."""
        self._version = DataVersion(
            counter=self._version.counter + 1, timestamp=self._clock.wall_ms()
        )
        self.file.changed()
        for told in self._listeners:
            told()
