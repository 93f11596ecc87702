"""Runs a job once or repeatedly, and prints its results."""

import sys
from collections.abc import Callable
from datetime import datetime
from threading import Event
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from cometmq.spark.read.progress import ProgressBar
from cometmq.spark.report.outcome import JobOutcome
from cometmq.spark.setup.session import session
from cometmq.spark.setup.spark_errors import in_one_line

ALARM_EXIT_CODE = 3
_SHOWN_MAX = 50

Job = Callable[[SparkSession], JobOutcome]


def run(title: str, job: Job, master: str, every_ms: int | None) -> int:
    """Run the job and return the exit code. An alarm also ends a repeated job."""
    bar_console, console = Console(stderr=True), Console()
    with in_one_line():
        spark = session(master)
        try:
            while True:
                with ProgressBar(spark, title, bar_console):
                    outcome = job(spark)
                show(outcome, console)
                if outcome.alarm:
                    print(f"cometmq: {outcome.alarm}", file=sys.stderr)
                    return ALARM_EXIT_CODE
                if every_ms is None:
                    return 0
                Event().wait(every_ms / 1000)
        except KeyboardInterrupt:
            return 0 if every_ms is not None else 130
        finally:
            spark.stop()


def show(outcome: JobOutcome, console: Console) -> None:
    """Print the last rows of the table and the paths of the files."""
    left_out = len(outcome.rows) - _SHOWN_MAX
    caption = f"{left_out} earlier rows are in the file" if left_out > 0 else None
    table = Table(caption=caption)
    for column in outcome.columns:
        table.add_column(column, overflow="fold")
    for row in outcome.rows[-_SHOWN_MAX:]:
        table.add_row(*map(_text, row))
    console.print(f"[bold]{outcome.title}[/bold]")
    console.print(table)
    for path in outcome.files:
        console.print(f"written: {path}", soft_wrap=True, highlight=False)


def _text(value: Any) -> str:
    """Format a cell. Times are shortened to seconds to fit; the CSV file has them in full."""
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    return "" if value is None else str(value)
