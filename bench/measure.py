"""Ways to measure that a noisy machine cannot spoil much: CPU time, the best of several runs."""

import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def cpu_us(work: Callable[[], object], *, count: int = 50_000, repeats: int = 5) -> float:
    """CPU microseconds of one call: the best of a few runs."""
    best = float("inf")
    for _ in range(repeats):
        begun = time.process_time()
        for _ in range(count):
            work()
        best = min(best, time.process_time() - begun)
    return best / count * 1e6


def command_ms(words: Sequence[str], *, runs: int) -> tuple[float, float]:
    """Wall and CPU time of a command from its start to its end, each the least of several runs."""
    walls, cpus = [], []
    for _ in range(runs):
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        walls.append(time.perf_counter() - begun)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpus.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(walls) * 1000, min(cpus) * 1000


def process_cpu_s(pid: int) -> float:
    """CPU seconds that a process has used, in user and system mode, with all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) * TICK_S


def rss_mb(pid: int, kind: str = "VmRSS") -> float:
    """Resident memory of a process; RssAnon is what is its own, without pages of mapped files."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} has no {kind}")


def machine() -> str:
    """What it was measured on."""
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
    python = subprocess.run(
        [sys.executable, "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()
    yardstick = cpu_us(_yardstick, count=20_000)
    return f"{os.cpu_count()} x {model}, {python}, yardstick {yardstick:.1f} us"


def _yardstick() -> list[tuple[str, int]]:
    """A little of everything: builds of one version of Python differ by a third, and do not tell.

    Those that were optimized by a profile, as most that are distributed, are the fast ones.
    """
    table = {}
    for number in range(10):
        table[f"key{number}"] = number
    return sorted(table.items())


def show(name: str, value: float, unit: str, note: str = "") -> None:
    """One figure, one line."""
    print(f"{name:58} {value:12,.2f} {unit:10} {note}".rstrip(), flush=True)
