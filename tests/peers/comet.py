"""Our own servers as child processes, as a user starts them."""

import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from peers import ports
from peers.apache import broker_conf
from peers.still import freeze

START_S_MAX = 30
STOP_S_MAX = 60
COMMAND = Path(sys.executable).with_name("cometmq")


class _Server:
    """One process on a port of 127.0.0.1. May be started again: same folder, same port."""

    command: Path | None = None  # None: COMMAND

    def __init__(self, folder: Path, port: int) -> None:
        self.folder = folder
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Of the running server."""
        return self._running().pid

    @property
    def log(self) -> str:
        """All that it wrote to stderr."""
        return (self.folder / "stderr").read_text()

    def start(self) -> Self:
        """Start, and wait for the line that says it listens."""
        assert self._process is None, "already started"
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "stderr").open("a") as log:
            self._process = subprocess.Popen(
                [str(self.command or COMMAND), *self._arguments()],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if "boot success" not in line:
            self.kill()
            raise AssertionError(f"{line}{self.log}")
        return self

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end, once: the exit code."""
        return self._end(number)

    def kill(self) -> None:
        """SIGKILL, as a machine failure would."""
        self._end(signal.SIGKILL)

    def pause(self) -> None:
        """Freeze it: connections stay open, nothing is answered."""
        freeze(self._running())

    def resume(self) -> None:
        """Undo pause()."""
        self._running().send_signal(signal.SIGCONT)

    def _arguments(self) -> list[str]:
        raise NotImplementedError

    def _running(self) -> subprocess.Popen[str]:
        assert self._process is not None, "not started"
        return self._process

    def _end(self, number: signal.Signals) -> int:
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.send_signal(signal.SIGCONT)  # a paused process gets no SIGTERM until it goes on
        process.send_signal(number)
        try:
            code = process.wait(STOP_S_MAX)
        finally:
            process.kill()
            assert process.stdout is not None
            process.stdout.close()
        return code


class CometNamesrv(_Server):
    """`cometmq namesrv`."""

    def __init__(self, folder: Path, *settings: str, port: int | None = None) -> None:
        super().__init__(folder, port or ports.free_port())
        self._settings = settings

    def _arguments(self) -> list[str]:
        return [
            "namesrv", "bindAddress=127.0.0.1", f"listenPort={self.port}",
            f"kvConfigPath={self.folder}/kvConfig.json",
            f"configStorePath={self.folder}/namesrv.properties", *self._settings,
        ]  # fmt: skip


class CometBroker(_Server):
    """`cometmq broker`, with the same settings file as peers.apache.ApacheBroker gets."""

    def __init__(
        self,
        folder: Path,
        *,
        namesrv: str,
        name: str = "broker-a",
        cluster: str = "DefaultCluster",
        broker_id: int = 0,
        conf: Mapping[str, object] | None = None,
        port: int | None = None,
    ) -> None:
        folder = folder.absolute()
        super().__init__(folder, port or ports.free_broker_port())
        self.name = name
        own = broker_conf(folder, self.port, namesrv, name, cluster, broker_id)
        self.conf = own | dict(conf or {})

    def _arguments(self) -> list[str]:
        path = self.folder / "broker.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.conf.items()))
        return ["broker", "-c", str(path)]
