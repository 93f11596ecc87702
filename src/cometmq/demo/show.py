"""Plays all stories concurrently on a temporary cluster, and shows them in a table."""

import asyncio
import logging
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.table import Table

from cometmq.demo.stories import SETTINGS, STORIES, Progress, play
from cometmq.standalone import Standalone


def run_demo(console: Console, patience_s: float) -> int:
    """Run the demonstration. Returns the number of failed stories as the exit code."""
    # Some stories fail on purpose; the table shows what happens.
    logging.getLogger("cometmq").setLevel(logging.CRITICAL)
    with tempfile.TemporaryDirectory(prefix="cometmq-demo-") as folder:
        return asyncio.run(_run(Path(folder), console, patience_s))


async def _run(folder: Path, console: Console, patience_s: float) -> int:
    begun = time.monotonic()
    stories = [Progress(title) for title in STORIES]
    async with Standalone(folder, settings=SETTINGS) as cluster:
        console.print(f"name server {cluster.name_server}, one broker, five stories:")
        with Live(_table(stories), console=console, refresh_per_second=10) as live:
            for progress in stories:
                progress.changed = lambda: live.update(_table(stories))
            ends = await asyncio.gather(
                *(
                    play(STORIES[progress.title], cluster.name_server, progress, patience_s)
                    for progress in stories
                ),
                return_exceptions=True,
            )
    if not console.is_terminal:
        console.print()  # on a terminal, the live table ends its last line itself
    failures = {
        progress.title: end
        for progress, end in zip(stories, ends, strict=True)
        if isinstance(end, BaseException)
    }
    for title, failure in failures.items():
        console.print(f"[red]{title}: {type(failure).__name__} {failure}[/]")
    sent, received = (sum(getattr(each, kind) for each in stories) for kind in ("sent", "received"))
    console.print(
        f"{sent} messages sent, {received} received, {len(stories) - len(failures)} of"
        f" {len(stories)} stories succeeded, in {time.monotonic() - begun:.1f} s"
    )
    return len(failures)


def _table(stories: Sequence[Progress]) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading, justify in (
        ("", "left"),
        ("story", "left"),
        ("sent", "right"),
        ("received", "right"),
        ("what happens", "left"),
    ):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    for story in stories:
        mark = "[green]done[/]" if story.is_over else "[yellow]running[/]"
        table.add_row(mark, story.title, str(story.sent), str(story.received), story.says)
    return table
