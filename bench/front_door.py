"""What a newcomer waits for: bench/run front_door.

From a command to its first word, what an idle server weighs and uses, and how long a test waits for
a broker of its own. Everything is installed, and was started before. The least of several runs.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from measure import command_ms, machine, process_cpu_s, rss_mb, show

from cometmq.testing import EmbeddedCluster

RUNS = 5
COMMAND_RUNS = 20
IDLE_S = 20
COMMAND = str(Path(sys.executable).with_name("cometmq"))


@contextmanager
def standalone() -> Iterator[tuple[int, str, float]]:
    """One that has sent a message to itself: its pid, its address, and the ms until then."""
    with tempfile.TemporaryDirectory() as folder:
        begun = time.perf_counter()
        process = subprocess.Popen(
            [COMMAND, "standalone", "--port", "0", "--print-address", "--store", folder],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        with process:
            try:
                address = process.stdout.readline().strip()
                yield process.pid, address, (time.perf_counter() - begun) * 1000
            finally:
                process.terminate()


def start_up() -> None:
    """Of `cometmq standalone`; its CPU time hardly depends on what else the machine does."""
    walls, cpus = [], []
    for _ in range(RUNS):
        with standalone() as (pid, _, spent_ms):
            walls.append(spent_ms)
            cpus.append(process_cpu_s(pid) * 1000)
    note = f"aim under 1000; {min(cpus):.0f} ms CPU"
    show("standalone: start to ready, with its self-check", min(walls), "ms", note)


async def embedded_ms() -> float:
    """Until a test has a cluster of its own."""
    begun = time.perf_counter()
    async with EmbeddedCluster():
        return (time.perf_counter() - begun) * 1000


def idle() -> None:
    """What one weighs, what it uses while nobody asks for anything, and a question to it."""
    with standalone() as (pid, address, _):
        show("standalone: resident when ready", rss_mb(pid), "MB", "aim under 100")
        show("standalone: of that, its own", rss_mb(pid, "RssAnon"), "MB")
        before = process_cpu_s(pid)
        time.sleep(IDLE_S)  # it is to do nothing
        used = (process_cpu_s(pid) - before) / IDLE_S
        show(f"standalone: CPU over {IDLE_S} s of nothing", used * 100, "%", "aim under 1")
        wall, cpu = command_ms([COMMAND, "admin", "topicList", "-n", address], runs=COMMAND_RUNS)
        show("cometmq admin topicList", wall, "ms", f"aim under 200; {cpu:.0f} ms CPU")


def main() -> None:
    """Print a table."""
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or who edits measures the compiler
    print(f"front door, {machine()}")
    wall, cpu = command_ms([COMMAND, "--version"], runs=COMMAND_RUNS)
    show("cometmq --version", wall, "ms", f"{cpu:.0f} ms CPU")
    start_up()
    idle()
    embedded = [asyncio.run(embedded_ms()) for _ in range(RUNS)]
    show("EmbeddedCluster: first start in a process", embedded[0], "ms")
    show("EmbeddedCluster: start", min(embedded), "ms", "aim under 300")


if __name__ == "__main__":
    main()
