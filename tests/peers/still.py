"""Stopping a process by signal, so that it stands still when one goes on."""

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

_STILL_S_MAX = 60


def freeze(process: "subprocess.Popen[Any]") -> None:
    """SIGSTOP: it reaches the threads one after the other, and the last may still have answered."""
    assert process.poll() is None, "it has ended"
    process.send_signal(signal.SIGSTOP)
    deadline = time.monotonic() + _STILL_S_MAX
    while not _is_still(process.pid):
        assert time.monotonic() < deadline, f"{process.pid} runs on"
        time.sleep(0.005)


def _is_still(pid: int) -> bool:
    try:
        return all(
            task.read_text().rpartition(")")[2].split()[0] == "T"
            for task in Path(f"/proc/{pid}/task").glob("*/stat")
        )
    except (FileNotFoundError, ProcessLookupError):  # a thread that has just ended
        return False
