"""`cometmq pipeline`: one command per job. Arguments are checked before Spark starts."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cometmq.errors import BadSetting, PeerError, WorldError
from cometmq.protocol.names import TRACE_TOPIC
from cometmq.spark.command_arguments import (
    duration,
    load,
    load_job,
    moment,
    name_value_pairs,
    other_topic,
    source_options,
    time_range,
    word_list,
)

_HELP = {"help_option_names": ["-h", "--help"]}


class _Commands(TyperGroup):
    """Reports the refusals of servers in one line, like all other errors."""

    def invoke(self, ctx: Any) -> Any:
        """Run the chosen command."""
        try:
            return super().invoke(ctx)
        except PeerError as error:
            raise WorldError(str(error)) from error


pipeline = typer.Typer(
    cls=_Commands,
    name="pipeline",
    help="Process topics and store files with Spark. Needs the extra `spark`.",
    epilog="Exit codes: 0 done, 1 error, 2 wrong usage, 3 lost or late messages, or too much lag.",
    context_settings=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

NameServer = Annotated[
    str, typer.Option("--name-server", "-n", help="host:port; separate several with ;")
]
Topics = Annotated[str, typer.Option("--topic", "-t", help="Topics, separated by commas.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Output folder.")]
Once = Annotated[
    bool, typer.Option("--once", help="Process what exists now, then exit. The default.")
]
Every = Annotated[
    str | None,
    typer.Option("--every", help="Repeat at this interval until Ctrl-C, such as 30s or 10m."),
]
Master = Annotated[str, typer.Option("--master", help="Spark master URL.")]
More = Annotated[
    list[str] | None,
    typer.Option(
        "--option", "-O", help="NAME=VALUE: an option of format('rocketmq'), such as accessKey."
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from", help="Only messages stored at or after this time: 2026-05-01T10:30, UTC."
    ),
]
To = Annotated[str | None, typer.Option("--to", help="Only messages stored before this time.")]
Key = Annotated[
    str, typer.Option("--key", help="What identifies a message: id, keys, body or property:NAME.")
]
TraceTopic = Annotated[str, typer.Option(help="Topic that holds the trace records.")]
_LOCAL = "local[*]"


@pipeline.command(context_settings=_HELP)
def archive(
    name_server: NameServer,
    topic: Topics,
    out: Out,
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """Write topics to Parquet by day and topic, exactly once. A later run resumes."""
    source = source_options(name_server, topic, option)
    job = load_job("archive").archive
    _run("archive", lambda spark: job(spark, source, out), master, once, every)


@pipeline.command(context_settings=_HELP)
def replay(
    lake: Annotated[Path, typer.Argument(metavar="ARCHIVE", help="Output folder of `archive`.")],
    name_server: NameServer,
    topic: Annotated[str, typer.Option("--topic", "-t", help="Target topic; it must exist.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Output folder; also stores the progress.")
    ],
    only: Annotated[
        str | None,
        typer.Option("--only", help="Only these topics of the archive, separated by commas."),
    ] = None,
    rate: Annotated[int | None, typer.Option("--rate", min=1, help="Messages per second.")] = None,
    begin: From = None,
    end: To = None,
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """Send an archive to a topic, in order, exactly once. A later run resumes."""
    server = {"nameServer": name_server} | name_value_pairs(option)
    job = load_job("replay")
    job.check(lake, server, topic)
    limits = {
        "topics": tuple(word_list("--only", only)) if only else (),
        "start_ms": moment("--from", begin),
        "end_ms": moment("--to", end),
        "rate": rate,
    }
    _run(
        "replay",
        lambda spark: job.replay(spark, lake, server, topic, out, **limits),
        master,
        once,
        every,
    )


@pipeline.command(context_settings=_HELP)
def scan(
    path: Annotated[Path, typer.Argument(help="storePathRootDir of a broker, or a copy of it.")],
    out: Out,
    by: Annotated[str | None, typer.Option(help="Read order: queues or log.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check the CRC of every body.")] = False,
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """Summarize store files: messages, bytes, times, gaps and damage of each topic."""
    store = {"path": str(path)} | ({"by": by} if by else {}) | name_value_pairs(option)
    load("cometmq.spark.files.store_scan").ScanOptions.of(store)
    job = load_job("scan").scan
    _run("scan", lambda spark: job(spark, store, out, verify=verify), master, once, every)


@pipeline.command(context_settings=_HELP)
def trace(
    name_server: NameServer,
    out: Out,
    trace_topic: TraceTopic = TRACE_TOPIC,
    begin: From = None,
    end: To = None,
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """Show how long sends and consumptions took: p50, p95 and p99 by group, and charts."""
    source = source_options(name_server, trace_topic, option, begin, end)
    job = load_job("trace").trace
    _run("trace", lambda spark: job(spark, source, out), master, once, every)


@pipeline.command(context_settings=_HELP)
def dlq(
    name_server: NameServer,
    out: Out,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Groups, separated by commas. Default: all.")
    ] = None,
    begin: From = None,
    end: To = None,
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """Count messages in dead-letter and retry topics by group, topic, tag and attempts."""
    source = {"nameServer": name_server} | name_value_pairs(option) | time_range(begin, end)
    groups = tuple(word_list("--group", group)) if group else ()
    job = load_job("dlq")
    load_job("sources").check({**source, "subscribe": ",".join(job.left_over(source, groups))})
    _run("dlq", lambda spark: job.dlq(spark, source, out, groups), master, once, every)


@pipeline.command(context_settings=_HELP)
def reconcile(
    name_server: NameServer,
    topic: Topics,
    out: Out,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Compare with the traces of this group.")
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", help="Compare with the messages of this topic.")
    ] = None,
    archive: Annotated[
        Path | None, typer.Option("--archive", help="Compare with the messages of this archive.")
    ] = None,
    key: Key = "id",
    late: Annotated[
        str, typer.Option("--late", help="A message consumed after this delay is late.")
    ] = "1m",
    trace_topic: TraceTopic = TRACE_TOPIC,
    begin: From = None,
    end: To = None,
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """Find lost, late and duplicate messages by key. Exit code 3 if messages are lost."""
    if sum(each is not None for each in (group, against, archive)) != 1:
        raise BadSetting(
            "give exactly one of --group, --against and --archive, the source of consumed messages"
        )
    load_job("keys").check_key(key)
    if group is not None and key != "id":
        raise BadSetting(f"option --key is {key!r}: traces identify messages by id only")
    if archive is not None and not archive.is_dir():
        raise BadSetting(f"option --archive: folder {archive} does not exist")
    job = load_job("reconcile")
    source = source_options(name_server, topic, option, begin, end)
    job.check(source, key)
    consumed = job.Consumed(
        group=group,
        trace=other_topic(source, trace_topic) if group is not None else None,
        topic=other_topic(source, against) if against is not None else None,
        lake=archive,
    )
    late_ms = duration("--late", late)
    _run(
        "reconcile",
        lambda spark: job.reconcile(
            spark, source, consumed, out, by=key, late_ms=late_ms, now_ms=int(time.time() * 1000)
        ),
        master,
        once,
        every,
    )


@pipeline.command(context_settings=_HELP)
def lag(
    name_server: NameServer,
    out: Out,
    group: Annotated[str, typer.Option("--group", "-g", help="Groups, separated by commas.")],
    fail_over: Annotated[
        int | None,
        typer.Option("--fail-over", min=0, help="Exit code 3 if a group lags by more messages."),
    ] = None,
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """Record the lag of consumer groups by queue and chart it over time."""
    source = {"nameServer": name_server} | name_value_pairs(option)
    groups = word_list("--group", group)
    job = load_job("lag")
    job.sample(source, groups)
    _run("lag", lambda spark: job.lag(spark, source, out, groups, fail_over), master, once, every)


@pipeline.command(context_settings=_HELP)
def windows(
    name_server: NameServer,
    topic: Topics,
    out: Out,
    window: Annotated[str, typer.Option(help="Length of a window.")] = "1m",
    watermark: Annotated[str, typer.Option(help="How late a message may arrive.")] = "1m",
    event_time: Annotated[
        str, typer.Option("--time", help="Event time: a column or a Spark SQL expression.")
    ] = "storeTimestamp",
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """Count messages in windows of event time, with a watermark. A later run resumes."""
    source = source_options(name_server, topic, option)
    job = load_job("windows").windows
    lengths = {"window_ms": duration("--window", window)}
    lengths["watermark_ms"] = duration("--watermark", watermark)
    _run(
        "windows",
        lambda spark: job(spark, source, out, time=event_time, **lengths),
        master,
        once,
        every,
    )


@pipeline.command(context_settings=_HELP)
def dedup(
    name_server: NameServer,
    topic: Topics,
    out: Out,
    key: Key = "id",
    within: Annotated[str, typer.Option("--within", help="How long a key is remembered.")] = "1d",
    to_topic: Annotated[
        str | None, typer.Option("--to-topic", help="Write to this topic instead of Parquet.")
    ] = None,
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """Write the first message of each key to Parquet or a topic. Exit code 3 if some are late."""
    load_job("keys").check_key(key)
    source = source_options(name_server, topic, option)
    if to_topic is not None:
        load_job("sources").cluster_at(source).route(to_topic)
    within_ms = duration("--within", within)
    job = load_job("dedup").dedup
    _run(
        "dedup",
        lambda spark: job(spark, source, out, by=key, within_ms=within_ms, to_topic=to_topic),
        master,
        once,
        every,
    )


@pipeline.command(context_settings=_HELP)
def doctor(
    fix: Annotated[bool, typer.Option("--fix", help="Install missing packages.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Do not start Spark.")] = False,
    name_server: Annotated[
        str | None, typer.Option("--name-server", "-n", help="Check that this name server answers.")
    ] = None,
) -> None:
    """Check that everything the pipeline needs is installed; --fix installs what is missing."""
    from cometmq.spark.setup import doctor as checks

    found = [*checks.packages(), checks.java()]
    if fix and checks.fix(found):
        found = [*checks.packages(), checks.java()]
    if not quick:
        found.append(checks.spark())
    if name_server is not None:
        found.append(checks.name_server(name_server))
    _show(found)
    if not all(each.is_good for each in found):
        raise typer.Exit(1)


def _show(found: list[Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("", "what", "required", "found")
    for each in found:
        table.add_row("ok" if each.is_good else "NOT OK", each.what, each.needed, each.found)
    Console().print(table)
    for each in found:
        if each.remedy:
            typer.echo(f"{each.what}: {each.remedy}")


def _run(title: str, job: Any, master: str, once: bool, every: str | None) -> None:
    if once and every is not None:
        raise BadSetting("options --once and --every are mutually exclusive")
    every_ms = None if every is None else duration("--every", every)
    code = load_job("runner").run(title, job, master, every_ms)
    if code:
        raise typer.Exit(code)
