"""Our own servers as child processes, as a user starts them."""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Self

from peers import ports

START_S_MAX = 30
STOP_S_MAX = 15
COMMAND = Path(sys.executable).with_name("cometmq")


class CometNamesrv:
    """`cometmq namesrv` on a port of 127.0.0.1. May be started again: same folder, same port."""

    def __init__(self, folder: Path, *settings: str, port: int | None = None) -> None:
        self.folder = folder
        self.port = port or ports.free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._settings = settings
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Of the running server."""
        assert self._process is not None
        return self._process.pid

    @property
    def log(self) -> str:
        """All that it wrote to stderr."""
        return (self.folder / "stderr").read_text()

    def start(self) -> Self:
        """Start, and wait for the line that says it listens."""
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [
            str(COMMAND), "namesrv", "bindAddress=127.0.0.1", f"listenPort={self.port}",
            f"kvConfigPath={self.folder}/kvConfig.json",
            f"configStorePath={self.folder}/namesrv.properties", *self._settings,
        ]  # fmt: skip
        with (self.folder / "stderr").open("a") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert "boot success" in line, f"{line}{self.log}"
        return self

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, as a machine failure would."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.send_signal(number)
        try:
            code = process.wait(STOP_S_MAX)
        finally:
            process.kill()
            assert process.stdout is not None
            process.stdout.close()
        return code
