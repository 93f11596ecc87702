"""What jobs read: topics, once or as a stream, and what brokers tell."""

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
from cometmq.spark.read.offset_bounds import Places

Options = Mapping[str, str]
T = TypeVar("T")

_STARTS_MAX = 3
_NO_WORKER = "Python worker failed to connect back"  # in ten seconds, on a machine that is busy
_OF_SERVERS = {"nameserver", "accesskey", "secretkey", "tls", "pulltimeoutms", "brokertimeoutms"}


def check(source: Options) -> None:
    """An error that names the option, the topic or the address, before anything is begun."""
    Places(ReadOptions.of(source)).queues()


def server_options(source: Options) -> dict[str, str]:
    """The options that say who is spoken to and how, not what is read."""
    return {name: value for name, value in source.items() if name.lower() in _OF_SERVERS}


def cluster_at(source: Options) -> Cluster:
    """That the options speak of."""
    return cluster_of(parsed(source, READ, {}))


def read(spark: SparkSession, source: Options) -> DataFrame:
    """What is there now."""
    return spark.read.format("rocketmq").options(**source).load()


def stream(spark: SparkSession, source: Options) -> DataFrame:
    """From the beginning on, unless the options say otherwise."""
    options = {} if _begins(source) else {"startingOffsets": "earliest"}
    return spark.readStream.format("rocketmq").options(**options, **source).load()


def _begins(source: Options) -> bool:
    return any(name.lower().startswith("starting") for name in source)


def finish(writer: Any, out: Path) -> list[Any]:
    """Run a stream to the end of what is there; it goes on from there the next time.

    Gives what Spark says of each micro-batch.
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
    """Have brokers asked by the admin tool's functions."""
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
