"""The manifest: the list of queue and index files. A listed file that is missing was lost.

Recovery rebuilds such a queue or index from the log, without the records of deleted topics. A file
that is not listed is normal: the manifest is written after files are created and before files are
deleted. Opening a store deletes only unlisted files of deleted topics, which a crash left. The
manifest is valid only if the offsets of the checkpoint are trusted: Apache's broker creates and
deletes files without updating it.
"""

from pathlib import Path

import msgspec

from cometmq.seams import Disk


class Bounds(msgspec.Struct, frozen=True, array_like=True):
    """Bounds of a queue at a checkpoint, and the start of the log at that time.

    The queue never ends before `end` again; `first` is right as long as the log begins there.
    """

    log_start: int
    first: int
    end: int


# Of a queue: the offsets at which its first and its last file begin.
Span = tuple[int, int]


class Manifest(msgspec.Struct, frozen=True):
    """Spans by topic and queue id, and names of index files."""

    queues: dict[str, dict[int, Span]]
    index: list[str]
    deleted: dict[
        str, int
    ] = {}  # topic to the end of the log at its deletion: older records are not its own
    bounds: dict[str, dict[int, Bounds]] = {}  # by topic and queue id


def read_manifest(disk: Disk, path: Path) -> Manifest | None:
    """The manifest; None if it is missing or damaged."""
    try:
        return msgspec.json.decode(disk.read(path), type=Manifest)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def write_manifest(disk: Disk, path: Path, manifest: Manifest) -> None:
    """Write the manifest durably."""
    disk.replace(path, msgspec.json.encode(manifest))
