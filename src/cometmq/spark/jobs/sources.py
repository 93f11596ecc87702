"""Inputs of jobs: topics as batches or streams, and admin requests to brokers."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from cometmq.admin.session import AdminConfig, AdminSession
from cometmq.remoting.tls import client_context
from cometmq.spark.options import READ, ReadOptions, cluster_of, parsed
from cometmq.spark.read.cluster import Cluster
from cometmq.spark.read.offset_bounds import OffsetBounds

Options = Mapping[str, str]
T = TypeVar("T")

_STARTS_MAX = 3
_NO_WORKER = "Python worker failed to connect back"  # Spark waits 10 s, too short when busy
_OF_SERVERS = {"nameserver", "accesskey", "secretkey", "tls", "pulltimeoutms", "brokertimeoutms"}


def check(source: Options) -> None:
    """Check options, topics and servers; the error names the wrong one."""
    OffsetBounds(ReadOptions.of(source)).queues()


def server_options(source: Options) -> dict[str, str]:
    """Return the options that describe the servers, without those that select messages."""
    return {name: value for name, value in source.items() if name.lower() in _OF_SERVERS}


def cluster_at(source: Options) -> Cluster:
    """Return the cluster of the option nameServer."""
    return cluster_of(parsed(source, READ, {}))


def read(spark: SparkSession, source: Options) -> DataFrame:
    """Return the messages that exist now."""
    return spark.read.format("rocketmq").options(**source).load()


def stream(spark: SparkSession, source: Options) -> DataFrame:
    """Return a stream that starts at the earliest offset unless the options say otherwise."""
    options = {} if _begins(source) else {"startingOffsets": "earliest"}
    return spark.readStream.format("rocketmq").options(**options, **source).load()


def _begins(source: Options) -> bool:
    return any(name.lower().startswith("starting") for name in source)


def finish(writer: Any, out: Path) -> list[Any]:
    """Run a stream up to the current end and return the progress of each micro-batch.

    The checkpoint is in the output folder: the next run resumes from it.
    """
    prepared = writer.option("checkpointLocation", str(out / "_checkpoint"))
    prepared = prepared.trigger(availableNow=True)
    done: list[Any] = []
    for starts_left in reversed(range(_STARTS_MAX)):
        query = prepared.start()
        try:
            query.awaitTermination()
            return done + list(query.recentProgress)
        except StreamingQueryException as error:
            if not starts_left or _NO_WORKER not in str(error):
                raise
            done += query.recentProgress
        finally:
            query.stop()
    raise AssertionError("the last start returns or raises")


def ask(source: Options, question: Callable[[AdminSession], Awaitable[T]]) -> T:
    """Run a function of the admin tools and return its result."""
    cluster = cluster_at(source)
    access = cluster.access

    async def answer() -> T:
        config = AdminConfig(
            name_servers=cluster.name_servers,
            access_key=access.access_key,
            secret_key=access.secret_key,
            tls=client_context(verify=False) if access.tls else None,
        )
        async with AdminSession(config) as admin:
            return await question(admin)

    return asyncio.run(answer())
