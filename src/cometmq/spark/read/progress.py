"""Progress of streams: committed to a consumer group for admin tools, and shown as a progress bar.

A query resumes from its checkpoint. The committed offsets only let admin tools show the lag of the
query like that of any consumer.
"""

import json
from collections.abc import Mapping
from threading import Event, Thread
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQueryListener
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.link import Access
from cometmq.spark.read.name_servers import parse_name_servers
from cometmq.spark.read.offsets import Offsets, of_json

_UPDATE_S = 0.25


class GroupOffsets(StreamingQueryListener):
    """Commits the offsets of streaming queries to a consumer group after each micro-batch.

    Usage: `spark.streams.addListener(GroupOffsets("127.0.0.1:9876", "my-group"))`.

    Args:
        name_server: `host:port`; separate several with semicolons.
        group: The consumer group that receives the offsets.
        query_name: Only this query. Default: all queries of the session that read from RocketMQ.
        access: Credentials and TLS.
    """

    def __init__(
        self,
        name_server: str,
        group: str,
        *,
        query_name: str | None = None,
        access: Access | None = None,
    ) -> None:
        self._cluster = Cluster(parse_name_servers(name_server), access or Access())
        self._group = group
        self._query_name = query_name
        self.lag = 0  # messages that existed but were not read when the last batch ended

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        """Do nothing: no message is read yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Commit the end offsets of a batch that is in the checkpoint."""
        progress = event.progress
        if self._query_name not in (None, progress.name):
            return
        for source in progress.sources:
            read = _offsets(source.endOffset)
            if read:
                self._commit(read, _offsets(source.latestOffset))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Do nothing: there are no new offsets."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Do nothing: the last batch was committed when it ended."""

    def _commit(self, read: Offsets, latest: Offsets) -> None:
        self.lag = sum(max(0, latest.get(queue, end) - end) for queue, end in read.items())
        self._cluster.try_commit(self._group, read)


class ProgressBar:
    """A context manager that shows the progress of a job on a terminal.

    Streams count messages, by their offsets; other work counts the tasks of active stages.
    """

    def __init__(self, spark: SparkSession, title: str, console: Console) -> None:
        self._spark = spark
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[done]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task(title, total=None, done="starting")
        self._ended = Event()
        self._watch = Thread(target=self._update, name="progress-bar", daemon=True)
        self._begun: dict[str, Offsets] = {}  # by query: its offsets when it was first seen

    def __enter__(self) -> "ProgressBar":
        if self._bar.console.is_terminal:
            self._bar.start()
            self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._watch.ident is not None:
            self._watch.join()
            self._bar.stop()

    def _update(self) -> None:
        while not self._ended.wait(_UPDATE_S):
            try:
                done, total, unit = self.seen()
            except (Py4JError, PySparkException):  # Spark is ending; the job reports the reason
                return
            if total:
                self._bar.update(
                    self._task, completed=done, total=total, done=f"{done:,} of {total:,} {unit}"
                )

    def seen(self) -> tuple[int, int, str]:
        """Return the completed count, the total count and the unit."""
        for query in self._spark.streams.active:
            progress = query.lastProgress
            for source in progress.sources if progress else ():
                latest, read = _offsets(source.latestOffset), _offsets(source.endOffset)
                if read and latest:
                    begun = self._begun.setdefault(query.runId, _offsets(source.startOffset))
                    return _between(begun, read), _between(begun, latest), "messages"
        tracker = self._spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        done = sum(stage.numCompletedTasks for stage in known)
        return done, sum(stage.numTasks for stage in known), "tasks"


def _between(start: Offsets, end: Offsets) -> int:
    return sum(max(0, offset - start.get(queue, 0)) for queue, offset in end.items())


def _offsets(text: str | None) -> Offsets:
    """Parse the offsets of one of our sources; those of other sources give an empty dict."""
    try:
        tree: Mapping[str, Any] = json.loads(text or "{}")
        return of_json(tree)
    except (ValueError, AttributeError, TypeError):
        return {}
