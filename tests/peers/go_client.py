"""Runs our Go program (go/*.go), which drives Apache's Go client (rocketmq-client-go 2.1.2).

It is built once per content of the sources, into the cache folder.
"""

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peers.jars import PeerMissing, cache_lock

_SOURCES = Path(__file__).parent / "go"
_BUILD_S_MAX = 300
_RUN_S_MAX = 400

SCENARIOS = (
    "admin", "async", "auto-topic", "batch", "broadcasting", "clustering", "compressed",
    "consumer-trace", "credentials", "dead-letter", "delayed", "from-last", "from-timestamp",
    "namespace", "one-way", "orderly", "orderly-retry", "poll", "pull", "queue-selector", "request",
    "request-async", "request-timeout", "retry", "small-pulls", "sql92", "suspend", "sync", "tags",
    "trace", "transaction", "transaction-check", "vip-port",
)  # fmt: skip


@dataclass(frozen=True)
class Told:
    """What a scenario found: facts that are the same on every broker, or an error."""

    facts: Any
    error: str | None


def program() -> Path:
    """The built program; PeerMissing, with the reason, if it cannot be built here."""
    sources = sorted(path for path in _SOURCES.iterdir() if path.suffix in (".go", ".mod", ".sum"))
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()
    with cache_lock() as folder:
        built = folder / f"go-client-{digest[:16]}"
        if not built.exists():
            _build(built)
    return built


def _build(built: Path) -> None:
    go = shutil.which("go")
    if go is None:
        raise PeerMissing("no go on the PATH to build the Go client's program")
    fetched = _run([go, "mod", "download"])
    if fetched.returncode != 0:
        said = fetched.stderr.strip().splitlines() or ["no output"]
        raise PeerMissing(f"go could not fetch the Go client: {said[-1]}")
    # Built beside its place and moved there whole: a file of that name is a complete one.
    partial = built.with_suffix(".partial")
    done = _run([go, "build", "-o", str(partial), "."])
    assert done.returncode == 0, done.stderr
    partial.rename(built)


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(
            command, cwd=_SOURCES, capture_output=True, text=True, timeout=_BUILD_S_MAX
        )
    except subprocess.TimeoutExpired:
        raise PeerMissing(f"{' '.join(command)} took more than {_BUILD_S_MAX} s") from None


def run_go(
    namesrv: str, broker: str, cluster: str, scenarios: Iterable[str] = SCENARIOS
) -> dict[str, Told]:
    """Run scenarios, all at the same time in one process; what each found, by its name."""
    built = program()
    with tempfile.TemporaryDirectory(prefix="go-client-") as home:
        done = subprocess.run(
            [str(built), namesrv, broker, cluster, *scenarios],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_RUN_S_MAX, cwd=home,
            env=os.environ | {"HOME": home},  # broadcasting consumers store offsets there
        )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"')]
    return {line["scenario"]: Told(line["facts"], line.get("error")) for line in lines}
