"""How far a stream is, told to brokers and to people: after each micro-batch, the last one too.

A checkpoint is what a query goes on from. Offsets of a group are for those who watch: admin tools
show the group's lag like that of any consumer.
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

from cometmq.spark.read.cluster import Cluster, name_servers_of
from cometmq.spark.read.link import Access
from cometmq.spark.read.offsets import Offsets, of_json

_LOOK_S = 0.25


class GroupOffsets(StreamingQueryListener):
    """`spark.streams.addListener(GroupOffsets("127.0.0.1:9876", "my-group"))`.

    Of all queries of the session that read from RocketMQ; of one of them, if a name is given.
    """

    def __init__(
        self,
        name_server: str,
        group: str,
        *,
        query_name: str | None = None,
        access: Access | None = None,
    ) -> None:
        self._cluster = Cluster(name_servers_of(name_server), access or Access())
        self._group = group
        self._query_name = query_name
        self.lag = 0  # messages that were there and not read, after the last batch

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Spark's names
        """Nothing is read yet."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """A batch is done, and in the checkpoint."""
        progress = event.progress
        if self._query_name not in (None, progress.name):
            return
        for source in progress.sources:
            read = _offsets(source.endOffset)
            if read:
                self._tell(read, _offsets(source.latestOffset))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing new."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """All was told."""

    def _tell(self, read: Offsets, there: Offsets) -> None:
        self.lag = sum(max(0, there.get(queue, end) - end) for queue, end in read.items())
        self._cluster.tell(self._group, read)


class Bar:
    """For people: how much of what there is a job has done. A context manager.

    Of a stream, in messages, as its offsets tell; of other work, in tasks of what runs now.
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
        self._watch = Thread(target=self._look, name="bar", daemon=True)
        self._begun: dict[str, Offsets] = {}  # by query: where it was when it was first seen

    def __enter__(self) -> "Bar":
        if self._bar.console.is_terminal:
            self._bar.start()
            self._watch.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._watch.ident is not None:
            self._watch.join()
            self._bar.stop()

    def _look(self) -> None:
        while not self._ended.wait(_LOOK_S):
            try:
                done, total, unit = self.seen()
            except (Py4JError, PySparkException):  # Spark ends: the job itself says why
                return
            if total:
                self._bar.update(
                    self._task, completed=done, total=total, done=f"{done:,} of {total:,} {unit}"
                )

    def seen(self) -> tuple[int, int, str]:
        """Done, of how many, of what."""
        for query in self._spark.streams.active:
            progress = query.lastProgress
            for source in progress.sources if progress else ():
                there, read = _offsets(source.latestOffset), _offsets(source.endOffset)
                if read and there:
                    begun = self._begun.setdefault(query.runId, _offsets(source.startOffset))
                    return _between(begun, read), _between(begun, there), "messages"
        tracker = self._spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
        known = [stage for stage in stages if stage is not None]
        done = sum(stage.numCompletedTasks for stage in known)
        return done, sum(stage.numTasks for stage in known), "tasks"


def _between(start: Offsets, end: Offsets) -> int:
    return sum(max(0, offset - start.get(queue, 0)) for queue, offset in end.items())


def _offsets(text: str | None) -> Offsets:
    """Of one of our sources; none, of another's."""
    try:
        tree: Mapping[str, Any] = json.loads(text or "{}")
        return of_json(tree)
    except (ValueError, AttributeError, TypeError):
        return {}
