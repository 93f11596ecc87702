"""The folder `_report` into which a job writes its table and charts.

The name begins with an underscore, so that Spark does not read it as part of the result. Files are
replaced atomically, because a job with --every rewrites them.
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
    """The report of the job whose output folder is `out`."""

    out: Path

    def file(self, name: str) -> Path:
        """Return the path of a file of the report; creates the folder."""
        folder = self.out / _NAME
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BadSetting(f"option --out: {folder}: {error.strerror}") from error
        return folder / name

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> Path:
        """Write the table as CSV."""
        path = self.file("report.csv")
        spare = path.with_suffix(".part")
        with spare.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            writer.writerows(rows)
        return spare.replace(path)


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Collect all rows through Arrow, which keeps times in the zone of the session."""
    found = frame.toArrow()
    columns = [column.to_pylist() for column in found.columns]
    return list(zip(*columns, strict=True)) if columns else []
