"""Which files of queues and index there are: what is in this list and not on disk was taken away.

Recovery makes such a part again from the log, but for the records of topics that were deleted.
Files that are on disk and not in the list are no surprise: a list is written after files are made,
and before files are deleted. Only those of a deleted topic go when the store is opened, as they
would have but for a crash. The list holds while the checkpoint's own offsets do: the original makes
and deletes files and does not know of it.
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
    deleted: dict[str, int] = {}  # topics, and where the log ended then: what is before is gone
    bounds: dict[str, dict[int, Bounds]] = {}  # by topic and queue id


def read_manifest(disk: Disk, path: Path) -> Manifest | None:
    """None if there is none, or it cannot be read."""
    try:
        return msgspec.json.decode(disk.read(path), type=Manifest)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None


def write_manifest(disk: Disk, path: Path, manifest: Manifest) -> None:
    """Durable when it returns."""
    disk.replace(path, msgspec.json.encode(manifest))
