"""The folder in which a job leaves its table and its pictures.

Its name has an underscore, so that Spark does not take it for a part of the result beside it. Files
are replaced as a whole: a job that goes on writes them again and again.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from cometmq.errors import BadSetting

_NAME = "_report"


@dataclass(frozen=True)
class Report:
    """Of the job whose result is in a folder."""

    out: Path

    def file(self, name: str) -> Path:
        """Where a file of the report is to be, in a folder that is there."""
        folder = self.out / _NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadSetting(f"option --out: {folder}: {error.strerror}") from error
        return folder / name

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
        """The table as CSV."""
        path = self.file("report.csv")
        spare = path.with_suffix(".part")
        with spare.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(rows)
        return spare.replace(path)


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """All of them. By Arrow: times come in the session's zone, not in the machine's."""
    found = frame.toArrow()
    columns = [column.to_pylist() for column in found.columns]
    return list(zip(*columns, strict=True)) if columns else []
