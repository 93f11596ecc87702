"""One command of the admin tool, from its start to its end, beside Apache's: bench/run admin.

Nearly all of it is the start of a process and its imports: a bare Python, and the import of
asyncio, which nothing here can do without, are shown beside it. The least of several runs.
"""

import sys
import tempfile
import time
from pathlib import Path

from measure import command_ms, machine, show

from peers.apache import mqadmin
from peers.comet import CometBroker, CometNamesrv
from peers.jars import PeerMissing, class_path

RUNS = 20
APACHE_RUNS = 3
SCRIPTS = Path(sys.executable).parent


def apaches(address: str) -> float:
    """Wall time in ms of the same command of Apache's tool."""
    times = []
    for _ in range(APACHE_RUNS):
        begun = time.perf_counter()
        mqadmin("topicList", namesrv=address)
        times.append(time.perf_counter() - begun)
    return min(times) * 1000


def main() -> None:
    """Print a table."""
    print(f"admin tool, {machine()}")
    with tempfile.TemporaryDirectory() as name, CometNamesrv(Path(name) / "namesrv") as namesrv:
        address = namesrv.address
        with CometBroker(Path(name) / "a", namesrv=address):
            tool = [str(SCRIPTS / "cometmq"), "admin", "-n", address]
            for title, words in {
                "python -c pass": [sys.executable, "-c", "pass"],
                "import asyncio": [sys.executable, "-c", "import asyncio"],
                "cometmq admin help": [*tool[:2], "help"],
                "cometmq admin topic list": [*tool, "topic", "list"],
                "cometmq admin group lag": [*tool, "group", "lag"],
                "cometmq admin cluster list": [*tool, "cluster", "list"],
            }.items():
                wall, cpu = command_ms(words, runs=RUNS)
                show(title, wall, "ms", f"{cpu:.0f} ms CPU")
            try:
                class_path()
            except PeerMissing as missing:
                print(f"Apache's mqadmin: {missing}")
            else:
                show("mqadmin topicList, Apache's", apaches(address), "ms")


if __name__ == "__main__":
    main()
