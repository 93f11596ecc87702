"""The result of a job."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class JobOutcome:
    """A small table, the written files, and an alarm if there is one."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    files: Sequence[Path]
    alarm: str = ""  # the reason for exit code 3, such as lost messages
