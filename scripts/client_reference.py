"""Writes docs/client-settings.md and docs/migrating.md from the code of the clients.

    python scripts/client_reference.py

A test fails when the files are not what this script would write.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

import cometmq
from cometmq import errors
from cometmq.admin.session import AdminConfig
from cometmq.client.config import (
    ClientConfig,
    ConsumerConfig,
    LitePullConsumerConfig,
    ProducerConfig,
    PullConsumerConfig,
    PushConsumerConfig,
)
from cometmq.client.durations import Duration, Timeout
from cometmq.client.fields import Seconds, Setting
from cometmq.errors import BadSetting, Error, StoredState
from cometmq.testing.embedded import EmbeddedCluster

DOCS = Path(__file__).parent.parent / "docs"
_MADE = "<!-- Made by scripts/client_reference.py from the code; a change here is lost. -->"
_CONFIGS = (
    ClientConfig,
    ProducerConfig,
    ConsumerConfig,
    PushConsumerConfig,
    LitePullConsumerConfig,
    PullConsumerConfig,
)
# Defaults that depend on the machine or the environment.
_DEFAULTS = {
    "name_servers": "`$NAMESRV_ADDR`",
    "client_ip": "this machine's address",
    "address_map": "empty",
    "allocation": "`Averagely()`",
}
# The names of durations before they became seconds.
_FORMER: Mapping[type[Any], str] = {
    ClientConfig: "poll_name_server_interval_ms heartbeat_broker_interval_ms api_timeout_ms"
    " persist_consumer_offset_interval_ms pull_delay_when_exception_ms",
    ProducerConfig: "send_timeout_ms",
    PushConsumerConfig: "pull_interval_ms suspend_current_queue_ms consume_timeout_ms"
    " await_termination_when_shutdown_ms",
    LitePullConsumerConfig: "broker_suspend_max_ms consumer_timeout_when_suspend_ms"
    " consumer_pull_timeout_ms auto_commit_interval_ms poll_timeout_ms"
    " topic_metadata_check_interval_ms",
    PullConsumerConfig: "broker_suspend_max_ms consumer_timeout_when_suspend_ms"
    " consumer_pull_timeout_ms",
    AdminConfig: "timeout_ms",
}
_INNER: Mapping[type[Any], str] = {
    cometmq.Producer: "check_open check_transaction send_marked take_reply",
    cometmq.Tracer: "add",
}
_ENTRY = re.compile(r"^        (\w+): ")


def client_settings() -> str:
    """Every setting of the clients with its default, its allowed values and its meaning."""
    return "\n".join(
        [
            _MADE,
            "# Client settings",
            "",
            "This page lists all settings of producers and consumers. Pass them as keyword",
            "arguments of the configuration classes:",
            "",
            "```python",
            "from cometmq import ClientConfig, Producer, ProducerConfig",
            "",
            'client = ClientConfig(name_servers="127.0.0.1:9876", api_timeout=5)',
            'producer = Producer(ProducerConfig(group="shop", send_timeout=1.5), client=client)',
            "```",
            "",
            "Durations are seconds (`int` or `float`) or a `timedelta`. Enums are a member or its",
            "name. Values are checked when the configuration is created: an unknown name, a wrong",
            "type or a value out of range raises `BadSetting`. Configurations are frozen;",
            "`dataclasses.replace` makes a changed copy. Settings of servers are in",
            "[settings.md](settings.md), Java's names in [porting.md](porting.md).",
            *(line for config in _CONFIGS for line in _section(config)),
            "",
        ]
    )


def _section(config: type[Any]) -> Iterator[str]:
    meanings = meanings_of(config)
    first_line = inspect.cleandoc(config.__doc__ or "").partition("\n")[0]
    yield from ("", f"## {config.__name__}", "", first_line, "")
    yield from ("| setting | default | allowed | meaning |", "|---|---|---|---|")
    inherited = {each.name for base in config.__bases__ for each in _fields(base)}
    for field in fields(config):
        if field.name not in inherited:
            setting = inspect.getattr_static(config, field.name, None)
            cells = (_default(field.name, setting), _allowed(setting), meanings[field.name])
            yield f"| `{field.name}` | {' | '.join(cells)} |"


def _fields(config: type[Any]) -> tuple[Any, ...]:
    return fields(config) if hasattr(config, "__dataclass_fields__") else ()


def meanings_of(config: type[Any]) -> dict[str, str]:
    """The `Attributes` section of a class docstring, by attribute."""
    found: dict[str, str] = {}
    name = ""
    for line in (config.__doc__ or "").partition("Attributes:\n")[2].splitlines():
        entry = _ENTRY.match(line)
        if entry:
            name = entry[1]
            found[name] = line[entry.end() :].strip()
        elif line.strip():
            found[name] += f" {line.strip()}"
    return found


def _default(name: str, setting: object) -> str:
    if name in _DEFAULTS:
        return _DEFAULTS[name]
    if not isinstance(setting, Setting):
        return "required"
    value = setting.__get__(None, type(setting))
    if isinstance(value, Enum):
        return f"`{value.name}`"
    if isinstance(setting, Seconds):
        return f"{value:g} s"
    if isinstance(value, frozenset):
        return ", ".join(f"`{each.name}`" for each in sorted(value))
    return "unset" if value in (None, "") else f"`{value}`"


def _allowed(setting: object) -> str:
    return setting.allowed if isinstance(setting, Setting) else "a valid group name"


def former_names() -> Iterator[tuple[type[Any], str, str]]:
    """Each configuration, an old name, and the new name that the error gives."""
    for config, names in _FORMER.items():
        for old in names.split():
            try:
                config(**{old: 1})
            except BadSetting as error:
                found = re.match(rf"{old} is now called (\w+): a number of seconds", str(error))
                assert found, f"{config.__name__} does not say what replaces {old}: {error}"
                yield config, old, found[1]


def durations() -> Iterator[tuple[str, str]]:
    """Each public function that takes a duration, with the argument."""
    public = [(name, getattr(cometmq, name)) for name in cometmq.__all__]
    public += [("testing.EmbeddedCluster", EmbeddedCluster)]
    for owner, kind in public:
        if not inspect.isclass(kind) or issubclass(kind, Error) or hasattr(kind, "_renamed"):
            continue
        for name in sorted(vars(kind)):
            function = vars(kind).get(name)
            if (name.startswith("_") and name != "__init__") or not inspect.isfunction(function):
                continue
            for parameter in inspect.signature(function).parameters.values():
                if parameter.annotation in (Duration, Timeout):
                    shown = owner if name == "__init__" else f"{owner}.{name}"
                    yield shown, parameter.name


def _no_longer_public() -> Iterator[str]:
    for owner, names in _INNER.items():
        for name in names.split():
            assert not hasattr(owner, name), f"{owner.__name__}.{name} is public"
            yield f"`{owner.__name__}.{name}`"


def migrating() -> str:
    """Former names and units, and what replaces them."""
    return "\n".join(
        [
            _MADE,
            "# Migrating from earlier versions",
            "",
            "This page is for programs that were written before durations became seconds. It lists",
            "each old name with the new one. `cometmq.compat`, settings of servers and options of",
            "Spark keep their names and units.",
            "",
            "## Durations are seconds",
            "",
            "A duration is a number of seconds (`int` or `float`) or a `timedelta`. Numbers were",
            "milliseconds before: divide them by 1000. A `timedelta` needs no change.",
            "",
            "Settings lost the suffix `_ms`. An old name raises `BadSetting` with the new name:",
            "",
            "| class | old name, milliseconds | new name, seconds |",
            "|---|---|---|",
            *(
                f"| `{config.__name__}` | `{old}` | `{new}` |"
                for config, old, new in former_names()
            ),
            "",
            "Arguments keep their names. Where a number was passed, change milliseconds to seconds",
            "(`EmbeddedCluster.advance` always took seconds). All arguments that are durations:",
            "",
            "| function | argument |",
            "|---|---|",
            *(f"| `{function}` | `{argument}` |" for function, argument in durations()),
            "",
            "The clients of `cometmq.blocking` have the same arguments. `Suspend(ms=...)` is now",
            "`Suspend(delay=...)`.",
            "",
            "## Methods that are no longer public",
            "",
            "They served other parts of the clients: " + ", ".join(_no_longer_public()) + ".",
            "",
            "## One base for all exceptions",
            "",
            "`except cometmq.Error` catches every exception of the package. `PeerError`,",
            "`WorldError` and `UserError` are its direct subclasses and say whose fault it is.",
            "",
            "- `error.retryable`: the same call may succeed later although nothing is changed.",
            "- `error.stored`, a `cometmq.StoredState`: whether the message of a failed send is",
            "  stored (`YES`, `NO`, `UNKNOWN`).",
            "- `TimedOut` is also a `TimeoutError`, and `Unreachable` a `ConnectionError`. Both",
            "  are therefore an `OSError`: check the order of your `except` clauses.",
            "",
            "| exception | fault | retryable | stored | also |",
            "|---|---|---|---|---|",
            *_exceptions(),
            "",
            "## Retries",
            "",
            "The timeout of a send covers all attempts. A send waits before it returns to a broker",
            "that failed it: `ProducerConfig.retry_backoff`. With 0, retries are immediate.",
            "",
            "## Settings are checked",
            "",
            "An unknown setting raises `BadSetting`; before, it raised `TypeError`. Enums accept a",
            "member or its name. All settings: [client-settings.md](client-settings.md).",
            "",
            "## Connection events",
            "",
            "`Session.on_connection(callback)`, and the same method of each client, calls back",
            "with a `ConnectionEvent` when a broker or name server is connected, disconnected or",
            "reconnected. Clients log one WARNING when a peer becomes unreachable and one INFO",
            "when it is reachable again; repeated failures are DEBUG.",
            "",
        ]
    )


def _exceptions() -> Iterator[str]:
    faults = {errors.PeerError: "peer", errors.WorldError: "environment", errors.UserError: "user"}
    for name, kind in vars(errors).items():
        if not inspect.isclass(kind) or not issubclass(kind, Error) or kind in {Error, *faults}:
            continue
        (fault,) = (said for base, said in faults.items() if issubclass(kind, base))
        retryable = "by code" if kind is errors.Refused else "yes" if kind.retryable else "no"
        is_unknown = kind.stored is StoredState.UNKNOWN or issubclass(kind, OSError)
        stored = "unknown or no" if is_unknown else "no"
        also = next((each.__name__ for each in kind.__bases__ if issubclass(each, OSError)), "—")
        yield f"| `{name}` | {fault} | {retryable} | {stored} | {also} |"


PAGES = {"client-settings.md": client_settings, "migrating.md": migrating}


def main() -> None:
    """Write the pages."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())


if __name__ == "__main__":
    main()
