"""What a job found."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class JobOutcome:
    """A table of few rows, and where the files are."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    files: Sequence[Path]
    alarm: str = ""  # what the job was to find out, and did: its command then fails
