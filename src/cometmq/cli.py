"""The command line: one entry point, one sub-command per process. Parses, builds settings, runs.

Sub-commands import what they need when they run, so that `cometmq --help` and short commands stay
quick.
"""

import sys
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from cometmq.errors import UserError, WorldError

_HELP = {"help_option_names": ["-h", "--help"]}


class LogLevel(Enum):
    """What is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


app = typer.Typer(
    name="cometmq",
    help="RocketMQ 4.9 in Python.",
    context_settings=_HELP,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY=VALUE]...", help="Settings, over the file's."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("-c", "--configFile", help="Settings file, key=value lines.")
    ] = None,
    print_settings: Annotated[
        bool, typer.Option("-p", "--printConfigItem", help="Print all settings and leave.")
    ] = False,
    namesrv_addr: Annotated[
        str | None, typer.Option("-n", "--namesrvAddr", hidden=True, help="Taken and not used.")
    ] = None,
    log_level: Annotated[LogLevel, typer.Option(help="From which level on.")] = LogLevel.INFO,
) -> None:
    """Run a name server."""
    from cometmq.logs import start_logging
    from cometmq.namesrv.config import NamesrvConfig
    from cometmq.settings import as_properties, build, parse_file, parse_pairs

    start_logging(log_level.value.upper())
    home = Path.home() / "namesrv"
    values = {
        "kvConfigPath": str(home / "kvConfig.json"),
        "configStorePath": str(config or home / "namesrv.properties"),
    }
    if config is not None:
        values |= parse_file(_read(config), str(config))
    chosen = build(NamesrvConfig, values | parse_pairs(settings or []))
    if print_settings:
        typer.echo(as_properties(chosen), nl=False)
        return

    from cometmq.namesrv.server import NameServer
    from cometmq.process import run_until_stopped

    run_until_stopped(
        lambda: NameServer(chosen),
        lambda server: typer.echo(
            f"The Name Server boot success. serializeType=JSON, "
            f"address {chosen.bind_address}:{server.port}"
        ),
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error


def main() -> None:
    """`cometmq`."""
    _run(app)


def mqnamesrv() -> None:
    """`mqnamesrv`, as the original's script: `cometmq namesrv`."""
    _run(lambda: app(["namesrv", *sys.argv[1:]], prog_name="mqnamesrv"))


def _run(command: Callable[[], None]) -> None:
    """What a person can mend is told in one line."""
    try:
        command()
    except (UserError, WorldError) as error:
        sys.exit(f"cometmq: {error}")
