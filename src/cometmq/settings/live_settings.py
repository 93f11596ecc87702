"""The settings in force, and the requests that change them.

A request may change only the settings that `UpdateRules` lists. The change is first written to the
settings file, which the next start reads. Then it takes effect: immediately, at the next start, or
never, depending on the key. Listings show the value of the file, also before it takes effect.
"""

import asyncio
import logging
from codecs import BOM_UTF8
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar, cast

from cometmq.background import shielded
from cometmq.errors import BadSetting, Refused
from cometmq.log_event import LogEvent
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.java.java_properties import edit_properties
from cometmq.seams import Disk
from cometmq.settings.settings import Settings, build_all, check_known, parse_file

log = logging.getLogger(__name__)

S = TypeVar("S", bound=Settings)


@dataclass(frozen=True, slots=True)
class UpdateRules:
    """Which settings a request may change; a key in none of the sets is refused."""

    live: frozenset[str]  # read at each use
    next_start: frozenset[str]  # read at start
    without_effect: frozenset[str]  # stored and shown, but never read
    refused: Mapping[str, str]  # the reason, by key
    check: Callable[[Mapping[str, str]], None] = lambda changes: None  # raises BadSetting

    @property
    def accepted(self) -> frozenset[str]:
        return self.live | self.next_start | self.without_effect


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """The file for changes, and the keys of which a start reads another value."""

    path: Path
    is_required: bool = False  # the -c file: if it was deleted, changes do not create a new one
    command_line: frozenset[str] = frozenset()  # its keys: these values win at the next start


class _Now(Protocol):
    def __call__(self, shape: type[S]) -> S:
        """The settings struct of this class, with the values in force."""


class LiveSettings:
    """Settings structs. A change is written to a file first, then replaces whole structs."""

    def __init__(
        self,
        settings: tuple[Settings, ...],
        rules: UpdateRules,
        file: SettingsFile | Path,
        disk: Disk,
    ) -> None:
        self._now = {type(each): each for each in settings}
        self.all = settings  # as configured; changes of `rules.next_start` are not in force yet
        self._rules = rules
        self._file = SettingsFile(file) if isinstance(file, Path) else file
        self._disk = disk
        # A send reads settings three times; a dict lookup is the fastest way.
        self.now = cast(_Now, self._now.__getitem__)
        self._one_at_a_time = asyncio.Lock()
        self._listeners: list[Callable[[], None]] = []
        self.changes = 0  # updates that were carried out

    def on_change(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change: for components that do not read `now` at each use."""
        self._listeners.append(listener)

    async def update(self, properties: bytes) -> None:
        """Change settings. Raises Refused, and changes nothing, if one key may not be changed."""
        # A canceled request must not leave the file and the settings different.
        await shielded(self._update(properties))

    async def _update(self, properties: bytes) -> None:
        async with self._one_at_a_time:
            await self._change(properties)

    async def _change(self, properties: bytes) -> None:
        shapes = tuple(self._now)
        try:
            changes = parse_file(properties, "the request")
            self._check_accepted(changes)
            if not changes:
                return
            self._rules.check(changes)
            configured = build_all(shapes, changes, base=self.all)
        except BadSetting as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        live = {key: changes[key] for key in changes.keys() & self._rules.live}
        in_force = build_all(shapes, live, base=tuple(self._now.values()))
        await self._store(changes)
        self.all = configured
        self._now.update({type(each): each for each in in_force})
        self.changes += 1
        for listener in self._listeners:
            listener()
        self._report(changes)

    def _check_accepted(self, changes: Mapping[str, str]) -> None:
        check_known(changes.keys() - self._rules.refused.keys(), tuple(self._now))
        for key in sorted(changes.keys() - self._rules.accepted):
            reason = self._rules.refused.get(key, "no rule allows it")
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"{key} cannot be changed by a request: {reason}; set it in the settings file",
            )

    def _report(self, changes: Mapping[str, str]) -> None:
        path = self._file.path
        for key, value in changes.items():
            effect = (
                "next start"
                if key in self._rules.next_start
                else ("none" if key in self._rules.without_effect else "now")
            )
            log.info(LogEvent("setting changed", key=key, value=value, effect=effect, path=path))
        for key in sorted(changes.keys() & self._file.command_line):
            log.warning(
                LogEvent("the command line overrides this setting at the next start", key=key)
            )

    async def _store(self, changes: Mapping[str, str]) -> None:
        try:
            await asyncio.wrap_future(self._disk.begin(partial(self._edit, changes)))
        except FileNotFoundError as error:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"nothing was changed: the -c file {self._file.path} of this server was deleted",
            ) from error
        except OSError as error:  # a mounted file, for example, as in containers
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"nothing was changed: {self._file.path} cannot be replaced: {error.strerror};"
                " start the server with a settings file in a writable folder",
            ) from error

    def _edit(self, changes: Mapping[str, str]) -> None:
        """Change the file durably; .bak then has the content before. Runs in a thread."""
        path = self._file.path
        try:
            before = self._disk.read(path)
        except FileNotFoundError:
            if self._file.is_required:
                raise
            before = b""
        # A byte order mark, and bytes that are not UTF-8, as in a comment, stay as they are.
        mark = BOM_UTF8 if before.startswith(BOM_UTF8) else b""
        text = before.removeprefix(mark).decode(errors="surrogateescape")
        after = mark + edit_properties(text, changes).encode(errors="surrogateescape")
        if after == before:
            return
        if before:
            self._disk.back_up(path)
        self._disk.replace(path, after)
