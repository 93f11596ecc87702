"""The settings of a start: the -c file, earlier changes and the command line, later ones winning.

Changes that requests made are in the -c file. A server that was started without one has a file of
its own for them; of that file a start reads only what a request may change.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cometmq.errors import BadSetting
from cometmq.seams import Disk
from cometmq.settings.live_settings import SettingsFile, UpdateRules
from cometmq.settings.settings import parse_file

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Given:
    """What a person gave a server: a command line, and perhaps a settings file."""

    command_line: Mapping[str, str]
    path: Path | None = None  # of the -c file
    file: Mapping[str, str] = field(default_factory=dict)  # what it says

    def says(self, key: str, otherwise: str) -> str:
        """The value of a setting."""
        return self.command_line.get(key) or self.file.get(key) or otherwise


def at_start(
    given: Given, path_key: str, default: Path, rules: UpdateRules, disk: Disk
) -> tuple[dict[str, str], SettingsFile]:
    """All values, and the file for changes: the -c file, or `default`.

    `path_key` is the setting that names the file. The command line may set it. In a -c file it is
    ignored: changes that go to another file would be lost at the next start.
    """
    values = dict(given.file)
    named = values.pop(path_key, None)
    config = given.path and given.path.absolute()
    path = Path(given.command_line.get(path_key) or config or named or default).absolute()
    if named is not None and path != Path(named).absolute():
        log.warning("%s in the settings file is ignored: changes go to %s", path_key, path)
    if path != config:
        values |= _changes_in(path, rules, disk)
    values |= given.command_line
    values[path_key] = str(path)
    return values, SettingsFile(path, path == config, frozenset(given.command_line))


def _changes_in(path: Path, rules: UpdateRules, disk: Disk) -> dict[str, str]:
    try:
        found = parse_file(disk.read(path), str(path))
    except (FileNotFoundError, NotADirectoryError):  # the latter is reported where the store opens
        return {}
    except OSError as error:
        raise BadSetting(f"{path}: {error.strerror}") from error
    changes = {key: found[key] for key in found.keys() & rules.accepted}
    if len(changes) < len(found):
        log.info(
            "%d settings of %s are ignored: no request can change them",
            len(found) - len(changes),
            path,
        )
    if changes:
        log.info(
            "settings changed by earlier requests, of %s: %s", path, ", ".join(sorted(changes))
        )
    return changes
