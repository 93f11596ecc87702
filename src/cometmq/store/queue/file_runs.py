"""Runs of files: equally sized files whose names are the offsets of their first bytes."""

from pathlib import Path

from cometmq.seams import Disk
from cometmq.store.log.commit_log import NAME_DIGITS, name_of

Write = tuple[Path, int, bytes, int]  # the arguments of Disk.write_at


def writes_of(folder: Path, file_size: int, at: int, data: memoryview) -> list[Write]:
    """Split `data`, which starts at offset `at` of the run, into one write per file."""
    assert at >= 0, "a run starts at offset 0"
    writes = []
    while data:
        place = at % file_size
        part = data[: file_size - place]
        writes.append((folder / name_of(at - place), place, bytes(part), file_size))
        at += len(part)
        data = data[len(part) :]
    return writes


def newest_run(bases: list[int], file_size: int, among: int | None = None) -> list[int]:
    """The newest files without a gap between them, or the ones around the file `among`.

    A base that is not a multiple of the file size belongs to no run.
    """
    runs: list[list[int]] = []
    for base in bases:
        if base % file_size:
            continue
        if runs and base == runs[-1][-1] + file_size:
            runs[-1].append(base)
        else:
            runs.append([base])
    newest = runs[-1] if runs else []
    return next((run for run in runs if among in run), newest)


def file_bases(disk: Disk, folder: Path) -> list[int]:
    """The start offsets of the files in a folder, in ascending order."""
    try:
        names = disk.names(folder)
    except NotADirectoryError:  # a stray file beside the queue folders
        return []
    return [int(name) for name in names if len(name) == NAME_DIGITS and name.isdigit()]
