"""The settings in force, of which a few may be changed while the server runs."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar, cast

from cometmq.background import to_its_end
from cometmq.errors import BadSetting, Refused
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.java import format_properties
from cometmq.seams import Disk
from cometmq.settings import Settings, as_texts, build_all, parse_file

log = logging.getLogger(__name__)

S = TypeVar("S", bound=Settings)


class _Now(Protocol):
    def __call__(self, shape: type[S]) -> S:
        """The settings of a kind as they are now."""


class LiveSettings:
    """One or more settings structs, replaced whole; what changes is written to a file first."""

    def __init__(
        self, settings: tuple[Settings, ...], changeable: frozenset[str], path: Path, disk: Disk
    ) -> None:
        self._now = {type(each): each for each in settings}
        self._changeable = changeable
        self._path = path
        self._disk = disk
        # A send asks three times, and a dict answers soonest.
        self.now = cast(_Now, self._now.__getitem__)
        self._one_at_a_time = asyncio.Lock()
        self._listeners: list[Callable[[], None]] = []
        self.changes = 0  # how often they were changed

    @property
    def all(self) -> tuple[Settings, ...]:
        """All of them as they are now."""
        return tuple(self._now.values())

    def on_change(self, told: Callable[[], None]) -> None:
        """Who is told after each change, from now on: what does not ask `now` each time."""
        self._listeners.append(told)

    async def update(self, properties: bytes) -> None:
        """Change what the allow-list names; one key that it does not, and nothing changes."""
        # An asker that leaves does not leave the file and the settings different.
        await to_its_end(self._update(properties))

    async def _update(self, properties: bytes) -> None:
        async with self._one_at_a_time:
            await self._change(properties)

    async def _change(self, properties: bytes) -> None:
        try:
            changes = parse_file(properties, "the request")
            barred = sorted(changes.keys() - self._changeable)
            if barred:
                allowed = ", ".join(sorted(self._changeable))
                raise Refused(
                    ResponseCode.NO_PERMISSION,
                    f"{barred[0]} cannot be changed while the server runs; these can: {allowed}",
                )
            if not changes:
                return
            changed = build_all(tuple(self._now), changes, base=self.all)
        except BadSetting as error:
            raise Refused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        texts = {key: text for each in changed for key, text in as_texts(each).items()}
        content = format_properties(texts, escaped=True).encode()
        await self._keep(content)
        self._now.update({type(each): each for each in changed})
        self.changes += 1
        for told in self._listeners:
            told()
        log.info("settings changed: %s", ", ".join(f"{k}={v}" for k, v in changes.items()))

    async def _keep(self, content: bytes) -> None:
        try:
            await asyncio.wrap_future(
                self._disk.begin(partial(self._disk.replace, self._path, content))
            )
        except OSError as error:  # a file that is mounted, for one, as containers do
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"nothing is changed, as {self._path} cannot be replaced: {error.strerror}; start"
                " the server with a settings file in a folder that it may write to",
            ) from error
