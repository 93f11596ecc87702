"""The settings in force, and the requests that change them.

A request may change the settings that an allow-list names. The change is written to the settings
file first, which the next start reads. Then it takes effect: immediately, at the next start, or
not at all, as `UpdateRules` says of each key. What is shown is what the file and the request say.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar, cast

from cometmq.background import to_its_end
from cometmq.errors import BadSetting, Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.java.java_properties import edit_properties
from cometmq.seams import Disk
from cometmq.settings.settings import Settings, build_all, check_known, parse_file

log = logging.getLogger(__name__)

S = TypeVar("S", bound=Settings)


@dataclass(frozen=True, slots=True)
class UpdateRules:
    """Which settings a request may change; a key in none of the sets is refused."""

    live: frozenset[str]  # read each time they are needed
    next_start: frozenset[str]  # read at start
    without_effect: frozenset[str]  # stored and shown, and nothing reads them
    refused: Mapping[str, str]  # the reason, by key
    check: Callable[[Mapping[str, str]], None] = lambda changes: None  # BadSetting if it is bad

    @property
    def accepted(self) -> frozenset[str]:
        """What a request may change."""
        return self.live | self.next_start | self.without_effect


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """Where changes are stored, and what a start reads besides it."""

    path: Path
    is_required: bool = False  # the -c file: if it is gone, changes are not written to a new one
    command_line: frozenset[str] = frozenset()  # keys that it sets, which win at the next start


class _Now(Protocol):
    def __call__(self, shape: type[S]) -> S:
        """The settings of a kind as they are now."""


class LiveSettings:
    """One or more settings structs, replaced whole; what changes is written to a file first."""

    def __init__(
        self,
        settings: tuple[Settings, ...],
        rules: UpdateRules,
        file: SettingsFile | Path,
        disk: Disk,
    ) -> None:
        self._now = {type(each): each for each in settings}
        self.all = settings  # as they are configured; those of `rules.next_start` not yet in force
        self._rules = rules
        self._file = SettingsFile(file) if isinstance(file, Path) else file
        self._disk = disk
        # A send asks three times, and a dict answers soonest.
        self.now = cast(_Now, self._now.__getitem__)
        self._one_at_a_time = asyncio.Lock()
        self._listeners: list[Callable[[], None]] = []
        self.changes = 0  # how often they were changed

    def on_change(self, told: Callable[[], None]) -> None:
        """Call this after each change, from now on: for what does not ask `now` each time."""
        self._listeners.append(told)

    async def update(self, properties: bytes) -> None:
        """Change what the rules accept; one key that they do not, and nothing changes."""
        # An asker that leaves does not leave the file and the settings different.
        await to_its_end(self._update(properties))

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
        for told in self._listeners:
            told()
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
        effects = {"at the next start": self._rules.next_start}
        effects["without effect"] = self._rules.without_effect
        told = []
        for key, value in changes.items():
            when = [effect for effect, keys in effects.items() if key in keys]
            told.append(f"{key}={value}" + (f" ({when[0]})" if when else ""))
        log.info("settings changed in %s: %s", self._file.path, ", ".join(told))
        hidden = sorted(changes.keys() & self._file.command_line)
        if hidden:
            log.warning(
                "the command line of this server sets %s: at the next start it wins over %s",
                ", ".join(hidden),
                self._file.path,
            )

    async def _store(self, changes: Mapping[str, str]) -> None:
        try:
            await asyncio.wrap_future(self._disk.begin(partial(self._edit, changes)))
        except FileNotFoundError as error:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"nothing is changed, as {self._file.path} is gone: the server was started with it",
            ) from error
        except OSError as error:  # a file that is mounted, for one, as containers do
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"nothing is changed, as {self._file.path} cannot be replaced: {error.strerror};"
                " start the server with a settings file in a folder that it may write to",
            ) from error

    def _edit(self, changes: Mapping[str, str]) -> None:
        """Runs in a thread. Durable when it returns; the content before is then in .bak."""
        path = self._file.path
        try:
            before = self._disk.read(path)
        except FileNotFoundError:
            if self._file.is_required:
                raise
            before = b""
        # Bytes that are no UTF-8, in a comment perhaps, stay as they are.
        text = before.decode(errors="surrogateescape")
        after = edit_properties(text, changes).encode(errors="surrogateescape")
        if after == before:
            return
        if before:
            self._disk.back_up(path)
        self._disk.replace(path, after)
