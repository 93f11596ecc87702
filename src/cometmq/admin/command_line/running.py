"""Runs one command and prints its result."""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, TextIO

from cometmq.admin.command_line.table import json_line, render
from cometmq.admin.command_line.usage import Asked
from cometmq.admin.rows import Row, is_failure
from cometmq.admin.session import TIMEOUT_MS, AdminConfig, AdminSession
from cometmq.errors import BadSetting

_SERVERS = "NAMESRV_ADDR"
_ADDRESS_MAP = "COMETMQ_ADDRESS_MAP"
_ACCOUNT = ("COMETMQ_ACCESS_KEY", "COMETMQ_SECRET_KEY")
_HOME = "ROCKETMQ_HOME"
_TEXT = "table"


def run(asked: Asked, out: TextIO) -> bool:
    """Run the command and write its result to `out`. Returns True if something failed."""
    logging.getLogger("cometmq").addHandler(logging.NullHandler())  # errors report failures
    return asyncio.run(_run(asked, config_of(asked.common, os.environ), out))


async def _run(asked: Asked, config: AdminConfig, out: TextIO) -> bool:
    async with AdminSession(config) as admin:
        result = function_of(asked.command.function)(admin, **asked.given)
        if hasattr(result, "__aiter__"):
            return await _show_each(result, asked.form or _TEXT, out)
        value = await result
        usual = asked.command.text if isinstance(value, dict) else _TEXT
        out.write(render(value, asked.form or usual))
        return is_failure(value)


def function_of(name: str) -> Callable[..., Any]:
    """The function that `module:name` in this package names."""
    file, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"cometmq.admin.{file}"), function)
    return found


async def _show_each(items: AsyncIterator[object], form: str, out: TextIO) -> bool:
    """Write items as they arrive; a row as JSON is one line."""
    failed = False
    count = 0
    async for item in items:
        out.write(_part(item, form, count))
        if not isinstance(item, Row):
            out.flush()  # the next may be a minute away
        failed |= is_failure(item)
        count += 1
    return failed


def _part(item: object, form: str, count: int) -> str:
    if not isinstance(item, Row):
        return ("---\n" if form == "yaml" and count else "") + render(item, form)
    if form == "json":
        return json_line(item)
    text = render([item], form)
    return text.partition("\n")[2] if form == "csv" and count else text


def config_of(common: Mapping[str, Any], environment: Mapping[str, str]) -> AdminConfig:
    """The configuration from common options and environment variables."""
    from cometmq.client.fields import parse_addresses

    access_key, secret_key = _account(environment)
    tls = None
    if common.get("tls"):
        from cometmq.remoting.tls import client_context

        tls = client_context()
    try:
        servers = parse_addresses(common.get("name_servers") or environment.get(_SERVERS, ""))
    except BadSetting as error:
        raise BadSetting(f"-n, or {_SERVERS}: {error}") from error
    return AdminConfig(
        name_servers=servers,
        timeout=common.get("timeout_ms", TIMEOUT_MS) / 1000,
        access_key=access_key,
        secret_key=secret_key,
        tls=tls,
        address_map=_map_of(common.get("address_map") or environment.get(_ADDRESS_MAP, "")),
        dry_run=common.get("dry_run", False),
    )


def _map_of(text: str) -> dict[str, str]:
    from cometmq.client.fields import check_address

    pairs = [each.partition("=") for each in text.split(",") if each.strip()]
    found = {registered.strip(): real.strip() for registered, _, real in pairs}
    for address in (*found, *found.values()):
        check_address(address)
    return found


def _account(environment: Mapping[str, str]) -> tuple[str, str]:
    """Access and secret key from the environment, or from the file that Apache's tool reads."""
    access_key, secret_key = (environment.get(name, "") for name in _ACCOUNT)
    if bool(access_key) != bool(secret_key):
        raise BadSetting(f"{' and '.join(_ACCOUNT)} belong together: set both or neither")
    home = environment.get(_HOME)
    file = Path(home or ".") / "conf" / "tools.yml"
    if access_key or not home or not file.is_file():
        return access_key, secret_key
    from yaml import YAMLError, safe_load

    try:
        found = safe_load(file.read_text()) or {}
        return str(found.get("accessKey", "")), str(found.get("secretKey", ""))
    except (OSError, YAMLError, AttributeError, UnicodeDecodeError) as error:
        raise BadSetting(f"{file}: cannot read accessKey and secretKey: {error}") from error
