"""Members of groups as processes: Apache's consumer in Java, ours in Python, told alike."""

import queue
import subprocess
import sys
import tempfile
import threading
import time
from json import JSONDecodeError
from pathlib import Path
from typing import Any

from peers.driver import REBALANCE, DriverFailed, JavaProgram

PROGRAM = Path(__file__).with_name("python_member.py")


class _Told:
    """The verbs of both programs."""

    name: str

    def join(
        self, topic: str, group: str, strategy: str = "AVG", given: str = "",
        order: str = "concurrently", sleep_ms: int = 0,
    ) -> str:  # fmt: skip
        """Be a member of a group: as which client."""
        words = ("join", topic, group, strategy, given, order, str(sleep_ms))
        client_id: str = self._ask("joined", *words)["client"]
        return client_id

    def share(self, group: str) -> list[str]:
        """The queues that it has, as broker/id."""
        found: list[str] = self._ask("share", "share", group)["queues"]
        return found

    def leave(self, group: str) -> None:
        """Close the consumer."""
        self._ask("left", "leave", group)

    def consumed(self) -> list[dict[str, Any]]:
        """All messages so far."""
        while True:
            try:
                self._heard(self.next(timeout=0))
            except (DriverFailed, JSONDecodeError):  # no more, or killed in the middle of a line
                return self.messages

    def _ask(self, event: str, *words: str) -> dict[str, Any]:
        self._process.stdin.write("\t".join(words) + "\n")
        self._process.stdin.flush()
        while (line := self._heard(self.next(150)))["event"] != event:
            continue
        return line

    def _heard(self, line: dict[str, Any]) -> dict[str, Any]:
        if line["event"] == "message":
            self.messages.append(line | {"member": self.name})
        return line


class JavaMember(_Told, JavaProgram):
    """Apache's push consumer."""

    def __init__(self, name: str, namesrv: str) -> None:
        super().__init__("Member", namesrv, properties=REBALANCE)
        self.name = name
        self.messages: list[dict[str, Any]] = []
        assert self.next(150) == {"event": "started"}


class PythonMember(_Told, JavaProgram):
    """Our push consumer: a program that speaks in lines, as the Java ones do."""

    def __init__(self, name: str, namesrv: str) -> None:
        self.name = self._name = name
        self.messages = []
        self._home = tempfile.TemporaryDirectory(prefix="member-")
        self._errors = Path(self._home.name) / "stderr"
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, str(PROGRAM), namesrv],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
            )  # fmt: skip
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self.next(150) == {"event": "started"}


def wait_until(condition: Any, what: str, seconds: float = 120) -> Any:
    """Until it is true; what it was."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"no {what} within {seconds} s"
        time.sleep(0.1)
    return found
