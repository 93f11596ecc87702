"""The command line: one entry point, one sub-command per process. Parses, builds settings, runs.

Sub-commands import what they need when they run, so that `cometmq --help` and short commands stay
quick.
"""

import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from cometmq import collector
from cometmq.errors import UserError, WorldError
from cometmq.spark.commands import pipeline

_HELP = {"help_option_names": ["-h", "--help"]}


# What every server is given, by the original's flags.
Pairs = Annotated[
    list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Settings, over the file's.")
]
SettingsFile = Annotated[
    Path | None, typer.Option("-c", "--configFile", help="Settings file, key=value lines.")
]
PrintSettings = Annotated[
    bool, typer.Option("-p", "--printConfigItem", help="Print all settings and leave.")
]
LogLevels = Annotated[
    str, typer.Option(help="From which level on, and for parts: info,store=debug")
]
LogFile = Annotated[Path | None, typer.Option(help="Log there, rotated, and not to stderr.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="Log a JSON object a line.")]


def _begin_to_serve() -> None:
    """What comes before the imports of a server."""
    collector.rest()
    # For numpy, of which the store uses whole numbers only: threads for products of floats take as
    # long to start as all the rest of it to load.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class ServerKind(Enum):
    """What can be stopped."""

    NAMESRV = "namesrv"
    BROKER = "broker"
    STANDALONE = "standalone"


app = typer.Typer(
    name="cometmq",
    help="RocketMQ 4.9 in Python.",
    context_settings=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(pipeline)


def _print_version(wanted: bool) -> None:
    if wanted:
        from cometmq import __version__

        typer.echo(f"cometmq {__version__}")
        raise typer.Exit


@app.callback()
def _any_command(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print it and leave."
        ),
    ] = False,
) -> None:
    """What holds for every sub-command."""


@app.command(context_settings=_HELP)
def namesrv(
    settings: Pairs = None,
    config: SettingsFile = None,
    print_settings: PrintSettings = False,
    namesrv_addr: Annotated[
        str | None, typer.Option("-n", "--namesrvAddr", hidden=True, help="Taken and not used.")
    ] = None,
    log_level: LogLevels = "info",
    log_file: LogFile = None,
    log_json: LogJson = False,
) -> None:
    """Run a name server."""
    _begin_to_serve()
    from cometmq.logs import start_logging
    from cometmq.namesrv.startup import namesrv_settings
    from cometmq.settings.settings import as_properties, parse_pairs
    from cometmq.settings.start_settings import Given

    start_logging(log_level, file=log_file, as_json=log_json)
    given = Given(parse_pairs(settings or []), config, _parsed(config))
    chosen = namesrv_settings(given, Path.home() / "namesrv")
    if print_settings:
        typer.echo(as_properties(chosen.config, *chosen.unused), nl=False)
        return

    from cometmq.namesrv.server import NameServer
    from cometmq.process import run_until_stopped

    run_until_stopped(
        "namesrv",
        lambda: NameServer(*chosen),
        lambda server: typer.echo(
            f"The Name Server boot success. serializeType=JSON, "
            f"address {chosen.config.bind_address}:{server.port}"
        ),
    )


@app.command(context_settings=_HELP)
def broker(
    settings: Pairs = None,
    config: SettingsFile = None,
    namesrv_addr: Annotated[
        str | None, typer.Option("-n", "--namesrvAddr", help="Name servers, with ;")
    ] = None,
    print_settings: PrintSettings = False,
    print_important: Annotated[
        bool, typer.Option("-m", "--printImportantConfig", help="Print the main ones and leave.")
    ] = False,
    log_level: LogLevels = "info",
    log_file: LogFile = None,
    log_json: LogJson = False,
) -> None:
    """Run a broker."""
    _begin_to_serve()
    from cometmq.broker.config import IMPORTANT
    from cometmq.broker.startup import broker_settings
    from cometmq.logs import start_logging
    from cometmq.settings.settings import as_properties, parse_pairs
    from cometmq.settings.start_settings import Given

    start_logging(log_level, file=log_file, as_json=log_json)
    command_line = {} if namesrv_addr is None else {"namesrvAddr": namesrv_addr}
    command_line |= parse_pairs(settings or [])
    chosen = broker_settings(Given(command_line, config, _parsed(config)))
    if print_settings or print_important:
        shown = as_properties(chosen.config, chosen.store, *chosen.unused)
        lines = shown.splitlines(keepends=True)
        wanted = [each for each in lines if print_settings or each.split("=")[0] in IMPORTANT]
        typer.echo("".join(wanted), nl=False)
        return

    from cometmq.broker.broker import Broker
    from cometmq.process import run_until_stopped
    from cometmq.store.index.bulk_hash import prepare

    prepare()
    servers = chosen.config.namesrv_addr
    run_until_stopped(
        "broker",
        lambda: Broker(*chosen),
        lambda server: typer.echo(
            f"The broker[{server.parts.identity.name}, {server.parts.identity.address}] boot "
            f"success. serializeType=JSON" + (f" and name server is {servers}" if servers else "")
        ),
    )


@app.command(context_settings=_HELP)
def standalone(
    settings: Pairs = None,
    store: Annotated[
        Path | None, typer.Option(help="Folder of all it keeps; ~/.cometmq if none is given.")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the name server; 0: any free one.")
    ] = 9876,
    broker_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Of the broker; 0: any free one.", show_default="10911"
        ),
    ] = None,
    print_address: Annotated[
        bool, typer.Option("--print-address", help="Print the name server's address and no more.")
    ] = False,
    log_level: LogLevels = "warning",
    log_file: LogFile = None,
    log_json: LogJson = False,
) -> None:
    """Run a name server and a broker in one process."""
    _begin_to_serve()
    from cometmq.logs import start_logging
    from cometmq.process import run_until_stopped
    from cometmq.self_check import checked
    from cometmq.settings.settings import parse_pairs
    from cometmq.standalone import DEFAULT_BROKER_PORT, Standalone, greeting

    start_logging(log_level, file=log_file, as_json=log_json)
    if broker_port is None:
        broker_port = DEFAULT_BROKER_PORT if port else 0
    run_until_stopped(
        "standalone",
        lambda: checked(
            Standalone(
                store or Path.home() / ".cometmq",
                host=host,
                port=port,
                broker_port=broker_port,
                settings=parse_pairs(settings or []),
            )
        ),
        lambda cluster: typer.echo(
            cluster.name_server
            if print_address
            else greeting(cluster, os.environ.get("COMETMQ_COMMAND", "cometmq"))
        ),
    )


@app.command(context_settings=_HELP)
def demo(
    patience: Annotated[
        float, typer.Option(min=1, help="Seconds until a story that does not end has failed.")
    ] = 30,
) -> None:
    """Play the quick start in the terminal: five stories, on a cluster of their own."""
    from rich.console import Console

    from cometmq.demo.show import run_demo

    raise typer.Exit(run_demo(Console(), patience))


@app.command(context_settings=_HELP)
def shutdown(kind: Annotated[ServerKind, typer.Argument(help="What to stop.")]) -> None:
    """Stop what was started on this machine by this user."""
    from cometmq.process import STOP_MS_MAX
    from cometmq.running import running

    found = running(kind.value)
    if not found:
        raise UserError(f"no {kind.value} of yours is running here")
    for each in found:
        each.stop(2 * STOP_MS_MAX)
        typer.echo(f"stopped {kind.value} {each.pid}")


@app.command(
    context_settings={"ignore_unknown_options": True, "help_option_names": []},
    add_help_option=False,
)
def admin(
    words: Annotated[list[str] | None, typer.Argument(metavar="COMMAND [OPTIONS]...")] = None,
) -> None:
    """Look at a cluster, and change it: `cometmq admin help` lists what can be done."""
    from cometmq.admin.command_line.main import main as run_admin

    raise typer.Exit(run_admin(words or [], "cometmq admin"))


def _parsed(path: Path | None) -> dict[str, str]:
    """What a settings file says."""
    from cometmq.settings.settings import parse_file

    if path is None:
        return {}
    try:
        return parse_file(path.read_bytes(), str(path))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error


def main() -> None:
    """`cometmq`."""
    _run([], None)


def mqnamesrv() -> None:
    """`mqnamesrv`, as the original's script: `cometmq namesrv`."""
    _run(["namesrv"], "mqnamesrv")


def mqbroker() -> None:
    """`mqbroker`, as the original's script: `cometmq broker`."""
    _run(["broker"], "mqbroker")


def mqshutdown() -> None:
    """`mqshutdown`, as the original's script: `cometmq shutdown`."""
    _run(["shutdown"], "mqshutdown")


# What a command line that cannot be understood raises; typer gives it no name of its own.
_UsageError: type[typer.BadParameter] = typer.BadParameter.mro()[1]


def _run(first: list[str], name: str | None) -> None:
    """What a person can mend is told in one line."""
    try:
        sys.exit(app([*first, *sys.argv[1:]], prog_name=name, standalone_mode=False))
    except _UsageError as error:
        if text := " ".join(error.format_message().split()):  # none: help was asked for, and given
            path = name or (error.ctx.command_path if error.ctx else "cometmq")
            typer.echo(f"cometmq: {text} (see {path} -h)", err=True)
        sys.exit(error.exit_code)
    except (UserError, WorldError) as error:
        sys.exit(f"cometmq: {error}")
