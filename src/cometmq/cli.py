"""The command line: one sub-command per kind of process, and RocketMQ's names for three of them.

Each sub-command imports what it needs when it runs, so that `cometmq --help` and short commands
stay fast.
"""

import os
import sys
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from cometmq import collector
from cometmq.errors import UserError, WorldError
from cometmq.spark.commands import pipeline

_HELP = {"help_option_names": ["-h", "--help"]}


# Options of every server, with the flags of Apache's scripts.
Pairs = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY=VALUE]...", help="Settings; they override the file."),
]
SettingsFile = Annotated[
    Path | None, typer.Option("-c", "--configFile", help="Settings file with key=value lines.")
]
PrintSettings = Annotated[
    bool, typer.Option("-p", "--printConfigItem", help="Print all settings and exit.")
]
LogLevels = Annotated[
    str, typer.Option(help="Lowest level to log, also of single modules: info,store=debug")
]
LogFile = Annotated[Path | None, typer.Option(help="Log to this file, rotated, not to stderr.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="Log one JSON object per line.")]


def _begin_to_serve() -> None:
    """Prepare the process before the server's modules are imported."""
    collector.pause()
    # numpy, which the store uses for integers only: starting its threads for matrix products
    # takes as long as loading all the rest of it.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


class ServerKind(Enum):
    """The kinds of servers that `shutdown` can stop."""

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
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options before the sub-command."""


@app.command(context_settings=_HELP)
def namesrv(
    settings: Pairs = None,
    config: SettingsFile = None,
    print_settings: PrintSettings = False,
    namesrv_addr: Annotated[
        str | None, typer.Option("-n", "--namesrvAddr", hidden=True, help="Ignored.")
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
    given = Given.read(parse_pairs(settings or []), config)
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
        str | None, typer.Option("-n", "--namesrvAddr", help="Name servers: host:port;host:port")
    ] = None,
    print_settings: PrintSettings = False,
    print_important: Annotated[
        bool, typer.Option("-m", "--printImportantConfig", help="Print the main settings and exit.")
    ] = False,
    log_level: LogLevels = "info",
    log_file: LogFile = None,
    log_json: LogJson = False,
) -> None:
    """Run a broker that registers with name servers."""
    _begin_to_serve()
    from cometmq.broker.config import IMPORTANT
    from cometmq.broker.startup import broker_settings
    from cometmq.logs import start_logging
    from cometmq.settings.settings import as_properties, parse_pairs
    from cometmq.settings.start_settings import Given

    start_logging(log_level, file=log_file, as_json=log_json)
    command_line = {} if namesrv_addr is None else {"namesrvAddr": namesrv_addr}
    command_line |= parse_pairs(settings or [])
    chosen = broker_settings(Given.read(command_line, config))
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
            f"The broker[{server.identity.name}, {server.identity.address}] boot "
            f"success. serializeType=JSON" + (f" and name server is {servers}" if servers else "")
        ),
    )


@app.command(context_settings=_HELP)
def standalone(
    settings: Pairs = None,
    store: Annotated[
        Path | None, typer.Option(help="Folder for all its files.", show_default="~/.cometmq")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port of the name server; 0: any free one.")
    ] = 9876,
    broker_port: Annotated[
        int | None,
        typer.Option(
            min=0, max=65535, help="Port of the broker; 0: any free one.", show_default="10911"
        ),
    ] = None,
    print_address: Annotated[
        bool, typer.Option("--print-address", help="Print only the name server's address.")
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
        float, typer.Option(min=1, help="Seconds after which an unfinished story has failed.")
    ] = 30,
) -> None:
    """Play the quick start in the terminal: five stories on a temporary cluster."""
    from rich.console import Console

    from cometmq.demo.show import run_demo

    raise typer.Exit(run_demo(Console(), patience))


@app.command(context_settings=_HELP)
def shutdown(
    kind: Annotated[ServerKind, typer.Argument(help="The kind of server to stop.")],
) -> None:
    """Stop all servers of a kind that this user runs on this machine."""
    from cometmq.process import STOP_MS_MAX
    from cometmq.running import running

    found = running(kind.value)
    if not found:
        raise UserError(f"this user runs no {kind.value} on this machine")
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
    """Inspect and change a cluster; `cometmq admin help` lists the commands."""
    from cometmq.admin.command_line.main import main as run_admin

    raise typer.Exit(run_admin(words or [], "cometmq admin"))


def main() -> None:
    """Run the `cometmq` command line."""
    _run(get_command(app), None)


def mqnamesrv() -> None:
    """Run `cometmq namesrv` under the name of Apache's script."""
    _run_alone("namesrv", "mqnamesrv")


def mqbroker() -> None:
    """Run `cometmq broker` under the name of Apache's script."""
    _run_alone("broker", "mqbroker")


def mqshutdown() -> None:
    """Run `cometmq shutdown` under the name of Apache's script."""
    _run_alone("shutdown", "mqshutdown")


# The error of a bad command line, for which typer has no public name.
_UsageError: type[typer.BadParameter] = typer.BadParameter.mro()[1]


def _run_alone(sub_command: str, name: str) -> None:
    group = get_command(app)
    assert isinstance(group, TyperGroup), "the app has several commands"
    _run(group.commands[sub_command], name)


def _run(command: Any, name: str | None) -> None:
    """Run it. An error that the user can fix is one line on stderr."""
    try:
        sys.exit(command(prog_name=name, standalone_mode=False))
    except _UsageError as error:
        text = " ".join(error.format_message().split())
        if text:  # empty if the help was printed
            path = error.ctx.command_path if error.ctx else name or "cometmq"
            typer.echo(f"{name or 'cometmq'}: {text} (see {path} -h)", err=True)
        sys.exit(error.exit_code)
    except (UserError, WorldError) as error:
        sys.exit(f"{name or 'cometmq'}: {error}")
