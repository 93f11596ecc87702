"""The jobs on the command line. What is given is looked at before Spark, which is slow, starts."""

import time
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from cometmq.errors import BadSetting, NotInstalled, PeerError, WorldError

_INSTALL = "pip install 'cometmq[spark]', or cometmq pipeline doctor --fix"
_HELP = {"help_option_names": ["-h", "--help"]}


class _Commands(TyperGroup):
    """What a server refuses, or says that is none of ours, is told in one line as well."""

    def invoke(self, ctx: Any) -> Any:
        """One of them."""
        try:
            return super().invoke(ctx)
        except PeerError as error:
            raise WorldError(str(error)) from error


pipeline = typer.Typer(
    cls=_Commands,
    name="pipeline",
    help="Topics and stores in Spark. Needs the extra `spark`.",
    epilog="Exit codes: 0 done, 1 an error, 2 a wrong command line, 3 messages lost or behind.",
    context_settings=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

NameServer = Annotated[str, typer.Option("--name-server", "-n", help="host:port, several with ;")]
Topics = Annotated[str, typer.Option("--topic", "-t", help="One or more, with commas.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of the result.")]
Once = Annotated[bool, typer.Option("--once", help="What is there now; the default.")]
Every = Annotated[
    str | None, typer.Option("--every", help="Again each so long, until Ctrl-C: 30s, 10m.")
]
Master = Annotated[str, typer.Option("--master", help="Spark's master.")]
More = Annotated[
    list[str] | None,
    typer.Option("--option", "-O", help="NAME=VALUE of the format rocketmq, such as accessKey."),
]
From = Annotated[
    str | None, typer.Option("--from", help="Stored then or later: 2026-05-01T10:30, UTC.")
]
To = Annotated[str | None, typer.Option("--to", help="Stored before then.")]
Key = Annotated[str, typer.Option("--key", help="id, keys, body, or property:NAME.")]
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
    """Topics to Parquet, by day and topic, each message once. Run again, it goes on."""
    source = _source(name_server, topic, option)
    job = _part("archive").archive
    _run("archive", lambda spark: job(spark, source, out), master, once, every)


@pipeline.command(context_settings=_HELP)
def replay(
    lake: Annotated[Path, typer.Argument(metavar="ARCHIVE", help="Folder of `archive`.")],
    name_server: NameServer,
    topic: Annotated[str, typer.Option("--topic", "-t", help="Where to; it must exist.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of what is done so far.")],
    only: Annotated[
        str | None, typer.Option("--only", help="Of these topics of the archive, with commas.")
    ] = None,
    rate: Annotated[int | None, typer.Option("--rate", min=1, help="Messages a second.")] = None,
    begin: From = None,
    end: To = None,
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """An archive into a topic, in order, each message once. Run again, it goes on."""
    server = {"nameServer": name_server} | _pairs(option)
    job = _part("replay")
    job.check(lake, server, topic)
    limits = {
        "topics": tuple(_words("--only", only)) if only else (),
        "start_ms": _moment("--from", begin),
        "end_ms": _moment("--to", end),
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
    path: Annotated[Path, typer.Argument(help="storePathRootDir of a broker, or a copy.")],
    out: Out,
    by: Annotated[str | None, typer.Option(help="queues, or log.")] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Check every body's crc.")] = False,
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """What is in the files of a store: messages, bytes, times, gaps and damage of each topic."""
    store = {"path": str(path)} | ({"by": by} if by else {}) | _pairs(option)
    _loaded("cometmq.spark.files.store_scan").ScanOptions.of(store)
    job = _part("scan").scan
    _run("scan", lambda spark: job(spark, store, out, verify=verify), master, once, every)


@pipeline.command(context_settings=_HELP)
def trace(
    name_server: NameServer,
    out: Out,
    trace_topic: Annotated[str, typer.Option(help="Where traces are.")] = "RMQ_SYS_TRACE_TOPIC",
    begin: From = None,
    end: To = None,
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """How long sends and consumptions took, by group: p50, p95, p99, a curve and a heat map."""
    source = _source(name_server, trace_topic, option, begin, end)
    job = _part("trace").trace
    _run("trace", lambda spark: job(spark, source, out), master, once, every)


@pipeline.command(context_settings=_HELP)
def dlq(
    name_server: NameServer,
    out: Out,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="With commas; all, if none is given.")
    ] = None,
    begin: From = None,
    end: To = None,
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """Messages that could not be consumed: given up or tried again, by group, topic, tag, times."""
    source = {"nameServer": name_server} | _pairs(option) | _between(begin, end)
    groups = tuple(_words("--group", group)) if group else ()
    job = _part("dlq")
    _part("sources").check({**source, "subscribe": ",".join(job.left_over(source, groups))})
    _run("dlq", lambda spark: job.dlq(spark, source, out, groups), master, once, every)


@pipeline.command(context_settings=_HELP)
def reconcile(
    name_server: NameServer,
    topic: Topics,
    out: Out,
    group: Annotated[
        str | None, typer.Option("--group", "-g", help="Consumed: as this group's traces say.")
    ] = None,
    against: Annotated[
        str | None, typer.Option("--against", help="Consumed: what is in this topic.")
    ] = None,
    archive: Annotated[
        Path | None, typer.Option("--archive", help="Consumed: what is in this archive.")
    ] = None,
    key: Key = "id",
    late: Annotated[str, typer.Option("--late", help="Later than that is late.")] = "1m",
    trace_topic: Annotated[str, typer.Option(help="Where traces are.")] = "RMQ_SYS_TRACE_TOPIC",
    begin: From = None,
    end: To = None,
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """What was sent against what was consumed, by key: lost, late, double. Exit code 3 if lost."""
    if sum(each is not None for each in (group, against, archive)) != 1:
        raise BadSetting("give one of --group, --against and --archive: what is consumed?")
    _part("keys").check_key(key)
    if group is not None and key != "id":
        raise BadSetting(f"option --key is {key!r}: traces know messages by their id")
    if archive is not None and not archive.is_dir():
        raise BadSetting(f"option --archive: there is no folder {archive}")
    job = _part("reconcile")
    source = _source(name_server, topic, option, begin, end)
    job.check(source, key)
    consumed = job.Consumed(
        group=group,
        trace=_beside(source, trace_topic) if group is not None else None,
        topic=_beside(source, against) if against is not None else None,
        lake=archive,
    )
    late_ms = _duration("--late", late)
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
    group: Annotated[str, typer.Option("--group", "-g", help="One or more, with commas.")],
    fail_over: Annotated[
        int | None,
        typer.Option("--fail-over", min=0, help="Exit code 3 if a group is further behind."),
    ] = None,
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """How many messages groups have still to consume, by queue, and over time. Adds a sample."""
    source = {"nameServer": name_server} | _pairs(option)
    groups = _words("--group", group)
    job = _part("lag")
    job.sample(source, groups)
    _run("lag", lambda spark: job.lag(spark, source, out, groups, fail_over), master, once, every)


@pipeline.command(context_settings=_HELP)
def windows(
    name_server: NameServer,
    topic: Topics,
    out: Out,
    window: Annotated[str, typer.Option(help="How long a window is.")] = "1m",
    watermark: Annotated[str, typer.Option(help="How late a message may come.")] = "1m",
    event_time: Annotated[
        str, typer.Option("--time", help="A column, or an expression of Spark's SQL.")
    ] = "storeTimestamp",
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """Messages in windows of time, with a watermark. Run again, it goes on."""
    source = _source(name_server, topic, option)
    job = _part("windows").windows
    lengths = {"window_ms": _duration("--window", window)}
    lengths["watermark_ms"] = _duration("--watermark", watermark)
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
    within: Annotated[str, typer.Option("--within", help="How long a key is known.")] = "1d",
    to_topic: Annotated[
        str | None, typer.Option("--to-topic", help="Into this topic, in place of Parquet.")
    ] = None,
    once: Once = False,
    every: Every = None,
    option: More = None,
    master: Master = _LOCAL,
) -> None:
    """Of messages with a key the first, to Parquet or a topic. Exit code 3: some came late."""
    _part("keys").check_key(key)
    source = _source(name_server, topic, option)
    if to_topic is not None:
        _part("sources").cluster_at(source).route(to_topic)
    within_ms = _duration("--within", within)
    job = _part("dedup").dedup
    _run(
        "dedup",
        lambda spark: job(spark, source, out, by=key, within_ms=within_ms, to_topic=to_topic),
        master,
        once,
        every,
    )


@pipeline.command(context_settings=_HELP)
def doctor(
    fix: Annotated[bool, typer.Option("--fix", help="Install what is missing.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Start no Spark.")] = False,
    name_server: Annotated[
        str | None, typer.Option("--name-server", "-n", help="See if it answers.")
    ] = None,
) -> None:
    """What of all that is needed is there; --fix brings what is not."""
    from cometmq.spark.setup import doctor as looks

    found = [*looks.packages(), looks.java()]
    if fix and looks.fix(found):
        found = [*looks.packages(), looks.java()]
    if not quick:
        found.append(looks.spark())
    if name_server is not None:
        found.append(looks.name_server(name_server))
    _show(found)
    if not all(each.is_good for each in found):
        raise typer.Exit(1)


def _show(found: list[Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("", "what", "needed", "found")
    for each in found:
        table.add_row("ok" if each.is_good else "NOT OK", each.what, each.needed, each.found)
    Console().print(table)
    for each in found:
        if each.remedy:
            typer.echo(f"{each.what}: {each.remedy}")


def _run(title: str, job: Any, master: str, once: bool, every: str | None) -> None:
    if once and every is not None:
        raise BadSetting("options --once and --every exclude one another: give one of them")
    every_ms = None if every is None else _duration("--every", every)
    code = _part("rounds").run(title, job, master, every_ms)
    if code:
        raise typer.Exit(code)


def _source(
    name_server: str,
    topics: str,
    more: list[str] | None,
    begin: str | None = None,
    end: str | None = None,
) -> dict[str, str]:
    """The options of a read, which are known and name what is there."""
    source = {"nameServer": name_server, "subscribe": topics} | _pairs(more) | _between(begin, end)
    _part("sources").check(source)
    return source


def _beside(source: dict[str, str], topic: str) -> dict[str, str]:
    """All of another topic of the same servers."""
    sources = _part("sources")
    other: dict[str, str] = {**sources.servers_of(source), "subscribe": topic}
    sources.check(other)
    return other


def _between(begin: str | None, end: str | None) -> dict[str, str]:
    times = {"startingTimestamp": _moment("--from", begin), "endingTimestamp": _moment("--to", end)}
    return {name: str(at) for name, at in times.items() if at is not None}


def _pairs(more: list[str] | None) -> dict[str, str]:
    found = {}
    for each in more or ():
        name, sign, value = each.partition("=")
        if not sign or not name:
            raise BadSetting(f"option --option is {each!r}: NAME=VALUE")
        found[name] = value
    return found


def _words(option: str, text: str) -> list[str]:
    found = [word.strip() for word in text.split(",") if word.strip()]
    if not found:
        raise BadSetting(f"option {option} is empty: one or more, with commas")
    return found


def _moment(option: str, text: str | None) -> int | None:
    from cometmq.spark.jobs.times import moment_ms

    return None if text is None else moment_ms(option, text)


def _duration(option: str, text: str) -> int:
    from cometmq.spark.jobs.times import duration_ms

    return duration_ms(option, text)


def _part(name: str) -> Any:
    return _loaded(f"cometmq.spark.jobs.{name}")


def _loaded(name: str) -> Any:
    """Imported when one runs: Spark is large, and may not be there."""
    try:
        return import_module(name)
    except ModuleNotFoundError as error:
        package = (error.name or "a package").partition(".")[0]
        raise NotInstalled(f"{package} is missing: {_INSTALL}") from error
