"""Writes docs/compat.md and docs/settings.md from the tables and structs that say the same in code.

    python scripts/reference.py

A test fails when the files are not what this would write.
"""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from pathlib import Path
from types import MappingProxyType
from typing import Any
from unittest.mock import MagicMock

from msgspec import NODEFAULT
from msgspec.inspect import EnumType, IntType, Metadata, Type, UnionType, type_info

from cometmq.admin.command_line import commands
from cometmq.broker import config as broker
from cometmq.broker.handlers import declined
from cometmq.broker.handlers.routes import build_routes as broker_routes
from cometmq.broker.tables.identity import identity_of
from cometmq.broker.update_rules import UPDATE_RULES as BROKER_RULES
from cometmq.namesrv import config as namesrv
from cometmq.namesrv.handlers import build_routes as namesrv_routes
from cometmq.protocol import deviations
from cometmq.protocol.codes import VERSION_NAME, RequestCode
from cometmq.protocol.java.values import java_text
from cometmq.remoting.config import ServerConfig
from cometmq.remoting.dispatch import Route, Routes
from cometmq.settings.live_settings import UpdateRules
from cometmq.settings.settings import NOT_OF_4_9, UNSUPPORTED, Settings
from cometmq.settings.unused_settings import (
    FixedBrokerConfig,
    FixedServerConfig,
    IgnoredBrokerConfig,
    IgnoredServerConfig,
)
from cometmq.store.config import StoreConfig

DOCS = Path(__file__).parent.parent / "docs"
_MADE = "<!-- Made by scripts/reference.py from the code; a change here is lost. -->"
_CODE = RequestCode

# Codes that no server of ours answers, by who does.
_ELSEWHERE = {
    "Clients answer them; a broker asks": {
        _CODE.CHECK_TRANSACTION_STATE,
        _CODE.NOTIFY_CONSUMER_IDS_CHANGED,
        _CODE.RESET_CONSUMER_CLIENT_OFFSET,
        _CODE.GET_CONSUMER_STATUS_FROM_CLIENT,
        _CODE.PUSH_REPLY_MESSAGE_TO_CLIENT,
    },
    "Nobody answers them in 4.9 either": {
        _CODE.QUERY_BROKER_OFFSET,
        _CODE.GET_TOPIC_CONFIG_LIST,
        _CODE.GET_TOPIC_NAME_LIST,
        _CODE.TRIGGER_DELETE_FILES,
        _CODE.SUSPEND_CONSUMER,
        _CODE.RESUME_CONSUMER,
        _CODE.RESET_CONSUMER_OFFSET_IN_CONSUMER,
        _CODE.RESET_CONSUMER_OFFSET_IN_BROKER,
        _CODE.ADJUST_CONSUMER_THREAD_POOL,
        _CODE.WHO_CONSUME_THE_MESSAGE,
    },
}

# What a server says to codes that it only knows.
_DECLINED = {
    declined.access_control: "this version has no access control",
    declined.filter_classes: "there are no filter classes",
}

# What a setting is when nobody sets it, where the machine decides.
_BY_THE_MACHINE = MappingProxyType(
    {
        "brokerName": "the host's name",
        "brokerIP1": "this machine's address",
        "storePathRootDir": "`$HOME/store`",
        "brokerConfigPath": "the `-c` file, or `broker.properties` in the root",
        "namesrvAddr": "`$NAMESRV_ADDR`",
        "kvConfigPath": "`$HOME/namesrv/kvConfig.json`",
        "configStorePath": "the `-c` file, or `$HOME/namesrv/namesrv.properties`",
        "rocketmqHome": "`$ROCKETMQ_HOME`",
        "clientCallbackExecutorThreads": "cores",
        "sendMessageThreadPoolNums": "cores, at most 4",
        "putMessageFutureThreadPoolNums": "cores, at most 4",
        "pullMessageThreadPoolNums": "16 + 2 × cores",
        "processReplyMessageThreadPoolNums": "16 + 2 × cores",
        "queryMessageThreadPoolNums": "8 + cores",
        "heartbeatThreadPoolNums": "cores, at most 32",
        "endTransactionThreadPoolNums": "8 + 2 × cores, at least 4 × sendMessageThreadPoolNums",
        "haListenPort": "`listenPort` + 1",
        "bitMapLengthConsumeQueueExt": "by `expectConsumerNumUseFilter`",
    }
)


def compat() -> str:
    """Which codes are answered, and by whom."""
    nothing = MagicMock()  # a table is only looked at: its handlers are never called
    somebody = identity_of(broker.BrokerConfig(broker_name="b", broker_ip1="127.0.0.1"), 10911)
    servers = {
        "a name server": namesrv_routes(nothing, nothing, nothing, nothing),
        "a broker": broker_routes(MagicMock(identity=somebody)),
    }
    return "\n".join(
        [
            _MADE,
            "# Which requests are answered",
            "",
            f"Both servers speak as {VERSION_NAME}. A request that is not listed is answered",
            "with REQUEST_CODE_NOT_SUPPORTED. A field with `*` must be there; a request that lacks",
            "it, or has something else in it than its type allows, is answered with its name, and",
            "changes nothing (`tests/broker/test_every_code.py`). Numbers and booleans are read as",
            "Java reads them: `+1` is a number, and a boolean that is not `true` is false.",
            "",
            "*Needs* is the permission that access control asks for, and *a slave* what a slave",
            "answers. This version has masters only and no access control: anyone may send every",
            "request. *Writes* marks requests that change messages, tables or settings.",
            *(line for name, routes in servers.items() for line in _answers(name, routes)),
            *_not_answered(set().union(*servers.values())),
            *_deviations(),
            *_admin_commands(servers["a broker"][_CODE.DELETE_ACL_CONFIG]),
            "",
        ]
    )


def _admin_commands(of_accounts: Route) -> Iterator[str]:
    own = [each for each in commands.ALL if each.is_ours]
    yield from (
        "",
        "## Commands of the admin tool",
        "",
        "`cometmq admin` and `mqadmin` have the names and flags of the 56 commands of 4.9; a test",
        "compares them with what Apache's tool tells of itself, and another runs each of them on a",
        "cluster of ours and on Apache's 4.9.7 (`tests/admin`, `tests/admin_live`). All take",
        "`-o json`, `yaml` or `csv`; those that change something take `--dry-run`, and answer with",
        "a table of where, what and `success` or why not.",
    )
    if of_accounts.handler is declined.access_control:
        yield "A broker of ours refuses the `acl` commands: it has no access control yet."
    yield from ("", "| RocketMQ's | plain form | dry run | what differs |", "|---|---|:-:|---|")
    for each in commands.ALL:
        if not each.is_ours:
            dry = "yes" if each.changes else ""
            yield f"| {each.name} | `{each.plain}` | {dry} | {each.differs or '—'} |"
    named = "; ".join(f"`{each.plain}`: {each.about}" for each in own)
    yield from ("", f"Ours alone: {named}.")


def _answers(name: str, routes: Routes) -> Iterator[str]:
    yield from ("", f"## What {name} answers", "")
    yield from ("| code | name | fields | needs | writes | a slave |", "|---:|---|---|---|:-:|---|")
    for code, route in sorted(routes.items()):
        cells = (
            str(code),
            RequestCode(code).name + _remark(route),
            _fields(route),
            str(route.access),
            "yes" if route.writes else "",
            "answers" if route.on_slave is None else f"refuses with {route.on_slave.code}",
        )
        yield f"| {' | '.join(cells)} |"


def _remark(route: Route) -> str:
    why = _DECLINED.get(route.handler)
    if why is not None:
        return f" (declined: {why})"
    return "" if route.vip_port else " (first port only)"


def _fields(route: Route) -> str:
    found = type_info(route.header).fields  # type: ignore[attr-defined]
    return ", ".join(f"{each.encode_name}{'*' if each.required else ''}" for each in found) or "—"


def _not_answered(answered: set[int]) -> Iterator[str]:
    yield from ("", "## What neither answers")
    named = set().union(*_ELSEWHERE.values())
    assert named == set(RequestCode) - answered, sorted(named ^ (set(RequestCode) - answered))
    for why, codes in _ELSEWHERE.items():
        names = ", ".join(f"{code.name} ({code.value})" for code in sorted(codes))
        yield from ("", f"{why}: {names}.")


def _deviations() -> Iterator[str]:
    yield from (
        "",
        "## Where the servers deviate from Apache 4.9.7",
        "",
        "Requests that are not in these tables have the same answer and the same effect: a test",
        "sends every code with every field spoiled in turn to both",
        "(`tests/compat/differential`; the tables are `cometmq/protocol/deviations.py`).",
    )
    for name, rows in (("A broker", deviations.BROKER), ("A name server", deviations.NAMESRV)):
        yield from ("", f"### {name}", "", "| requests | when | Apache | here | reason |")
        yield "|---|---|---|---|---|"
        for row in rows:
            codes = ", ".join(code.name for code in row.codes) or "all"
            cells = (codes, row.when, row.apache, row.ours, row.reason.value)
            yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def settings() -> str:
    """Every setting with its default, bounds and meaning."""
    shared = set(ServerConfig.__struct_encode_fields__) - {"listenPort"}
    for_both = {*IgnoredServerConfig.__struct_encode_fields__, "rocketmqHome"}
    servers, brokers = namesrv.UPDATE_RULES, BROKER_RULES
    return "\n".join(
        [
            _MADE,
            "# Settings",
            "",
            "Set them in a file (`-c`) or on the command line (`key=value`). A key that is not",
            "listed is refused, with the nearest that is. `updateBrokerConfig` and",
            "`updateNamesrvConfig` change them in a running server, as the column *update* says:",
            "",
            "- **now**: the change takes effect immediately.",
            "- **next start**: the change is stored and shown, and takes effect at the next start.",
            "- **no effect**: the setting is stored and shown, and nothing here reads it.",
            "- **refused**: the request is answered with NO_PERMISSION and the reason, which",
            "  [below](#refused-updates) lists.",
            "",
            "How changes are stored:",
            "[operating.md](operating.md#changing-settings-while-a-server-runs).",
            *_section("Both servers", ServerConfig, servers, {"listenPort"}),
            *_section("Name server", namesrv.NamesrvConfig, servers, shared),
            *_section("Broker", broker.BrokerConfig, brokers, shared),
            *_section("A broker's store", StoreConfig, brokers),
            "",
            "## Without effect",
            "",
            "There are no thread pools, native selectors, direct memory, replicas or filter",
            "servers here. These settings of 4.9 are accepted, so that Apache's files work as they",
            "are, named once in the log, stored and shown.",
            *_unused("Both servers", IgnoredServerConfig, servers),
            *_unused("", FixedServerConfig, servers),
            *_unused("Broker", IgnoredBrokerConfig, brokers, for_both),
            *_unused("", FixedBrokerConfig, brokers, for_both),
            "",
            "Accepted in files although 4.9.7 does not know them:",
            ", ".join(f"`{key}`" for key in sorted(NOT_OF_4_9)) + ".",
            *_refused("Name server", servers),
            *_refused("Broker", brokers),
            "",
        ]
    )


def _section(
    title: str, shape: type[Settings], rules: UpdateRules, without: AbstractSet[str] = frozenset()
) -> Iterator[str]:
    yield from ("", f"## {title}", "", "| key | default | may be | update | what it does |")
    yield "|---|---|---|---|---|"
    for field in type_info(shape).fields:  # type: ignore[attr-defined]
        key = field.encode_name
        if key in without:
            continue
        kind, meaning = _described(field.type)
        update = _update(key, rules)
        yield f"| `{key}` | {_default(field)} | {_bounds(kind)} | {update} | {meaning} |"


def _unused(
    title: str, shape: type[Settings], rules: UpdateRules, without: AbstractSet[str] = frozenset()
) -> Iterator[str]:
    """A table of its own, or more rows of the table before it."""
    if title:
        yield from ("", f"### {title}, without effect", "")
        yield from ("| key | default | may be | update |", "|---|---|---|---|")
    for field in type_info(shape).fields:  # type: ignore[attr-defined]
        if (key := field.encode_name) not in without:
            kind, _ = _described(field.type)
            update = "accepted" if key in rules.accepted else "refused"
            bounds = (UNSUPPORTED[key] or "empty") if key in UNSUPPORTED else _bounds(kind)
            yield f"| `{key}` | {_default(field)} | {bounds} | {update} |"


def _update(key: str, rules: UpdateRules) -> str:
    kinds = {
        "now": rules.live,
        "next start": rules.next_start,
        "no effect": rules.without_effect,
        "refused": rules.refused.keys(),
    }
    (found,) = (kind for kind, keys in kinds.items() if key in keys)
    return found


def _refused(title: str, rules: UpdateRules) -> Iterator[str]:
    if title == "Name server":
        yield from ("", "## Refused updates")
        yield from ("", "CVE-2023-33246 and CVE-2023-37582 are such updates of Apache's servers.")
    yield from ("", f"### {title}, refused", "", "| reason | keys |", "|---|---|")
    reasons: dict[str, list[str]] = {}
    for key, reason in rules.refused.items():
        reasons.setdefault(reason, []).append(key)
    for reason, keys in reasons.items():
        yield f"| {reason} | {', '.join(f'`{key}`' for key in sorted(keys))} |"


def _described(kind: Type) -> tuple[Type, str]:
    """The type itself, and what its description says."""
    meaning = ""
    while isinstance(kind, Metadata):
        meaning = meaning or (kind.extra_json_schema or {}).get("description", "")
        kind = kind.type
    return kind, meaning.replace("|", "\\|")


def _default(field: Any) -> str:
    if field.encode_name in _BY_THE_MACHINE:
        return _BY_THE_MACHINE[field.encode_name]
    if field.default is None:
        return "unset"
    assert field.default is not NODEFAULT, f"{field.encode_name} must be told where it comes from"
    value = field.default.value if hasattr(field.default, "value") else field.default
    return f"`{java_text(value)}`" if value != "" else ""


def _bounds(kind: Type) -> str:
    match kind:
        case EnumType():
            return ", ".join(str(each.value) for each in kind.cls)
        case IntType(ge=None, le=None):
            return "a number"
        case IntType(ge=low, le=None):
            return f"{low} up"
        case IntType(ge=low, le=high):
            return f"{low} to {high}" if low != high else str(low)
        case UnionType():  # or None, while it is unset
            return "text"
    return {"BoolType": "true, false", "StrType": "text"}[type(kind).__name__]


PAGES = {"compat.md": compat, "settings.md": settings}


def main() -> None:
    """Write both."""
    for name, page in PAGES.items():
        (DOCS / name).write_text(page())


if __name__ == "__main__":
    main()
