"""The settings of a start: the -c file, earlier changes and the command line; the last one wins.

Requests change the -c file. A server that was started without one stores changes in a file of its
own; a start reads from that file only the settings that a request may change.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Self

from cometmq.errors import BadSetting
from cometmq.log_event import LogEvent
from cometmq.seams import Disk
from cometmq.settings.live_settings import SettingsFile, UpdateRules
from cometmq.settings.settings import parse_file, places_in

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Given:
    """What a server is started with: a command line, and optionally a settings file."""

    command_line: Mapping[str, str]
    path: Path | None = None  # of the -c file
    file: Mapping[str, str] = field(default_factory=dict)  # its content
    places: Mapping[str, str] = field(default_factory=dict)  # file:line of each key

    @classmethod
    def read(cls, command_line: Mapping[str, str], path: Path | None) -> Self:
        """With the content of the -c file. Raises BadSetting if it cannot be read."""
        if path is None:
            return cls(command_line)
        try:
            content = path.read_bytes()
        except OSError as error:
            raise BadSetting(f"{path}: {error.strerror}") from error
        name = str(path)
        return cls(command_line, path, parse_file(content, name), places_in(content, name))

    def value(self, key: str, default: str) -> str:
        return self.command_line.get(key) or self.file.get(key) or default


class StartSettings(NamedTuple):
    """The values of all sources, where each was set, and the file for changes by requests."""

    values: dict[str, str]
    places: dict[str, str]  # file:line; without keys that the command line sets
    file: SettingsFile


def at_start(
    given: Given, path_key: str, default: Path, rules: UpdateRules, disk: Disk
) -> StartSettings:
    """Combine all sources. Changes go to the -c file, or to `default` if there is no -c file.

    `path_key` is the setting that names the file for changes. The command line may set it. In a -c
    file it is ignored: changes that go to another file would be lost at the next start.
    """
    values, places = dict(given.file), dict(given.places)
    named = values.pop(path_key, None)
    config = given.path and given.path.absolute()
    path = Path(given.command_line.get(path_key) or config or named or default).absolute()
    if named is not None and path != Path(named).absolute():
        log.warning(LogEvent("setting in the -c file ignored", key=path_key, changes_go_to=path))
    if path != config:
        _add_changes(values, places, path, rules, disk)
    values |= given.command_line
    values[path_key] = str(path)
    for key in given.command_line:
        places.pop(key, None)
    return StartSettings(
        values, places, SettingsFile(path, path == config, frozenset(given.command_line))
    )


def _add_changes(
    values: dict[str, str], places: dict[str, str], path: Path, rules: UpdateRules, disk: Disk
) -> None:
    """Add the changes that earlier requests made."""
    try:
        content = disk.read(path)
    except (FileNotFoundError, NotADirectoryError):  # opening the store reports the latter
        return
    except OSError as error:
        raise BadSetting(f"{path}: {error.strerror}") from error
    found, lines = parse_file(content, str(path)), places_in(content, str(path))
    changes = sorted(found.keys() & rules.accepted)
    for key in changes:
        values[key], places[key] = found[key], lines[key]
    if len(changes) < len(found):
        ignored = ", ".join(sorted(found.keys() - rules.accepted))
        log.info(LogEvent("settings that no request can change ignored", path=path, keys=ignored))
    if changes:
        log.info(LogEvent("settings of earlier requests read", path=path, keys=", ".join(changes)))
