"""Apache's name server and broker as child processes, and its mqadmin tool.

Each server lives in the folder it is given: conf/ (its ROCKETMQ_HOME), store/ and server.log (what
the process printed). An object may be started again after stop() or kill(): same folder, same port.
"""

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from peers import jars, ports
from peers.still import freeze

START_S_MAX = 150
STOP_S_MAX = 20
_POLL_S = 0.05
_LOG_CHARACTERS_SHOWN = 4000

# Apache 4.9 reaches into these packages by reflection, which Java 16 and later refuse unasked.
_OPENS = ("java.nio", "sun.nio.ch", "java.lang", "java.util", "jdk.internal.ref")
_REFLECTION = [f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENS] + [
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED"
]
# Start-up counts here, not throughput: tests share few cores.
_SMALL = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

# Above these shares of the disk a broker deletes files or refuses sends; test machines may be full.
_DISK_LIMITS = {
    "rocketmq.broker.diskSpaceWarningLevelRatio": "0.99",
    "rocketmq.broker.diskSpaceCleanForciblyRatio": "0.99",
}


# Each start of a server that may talk TLS makes itself keys and certificates: seconds of a core.
NO_TLS = {"tls.server.mode": "disabled"}


class PeerFailed(Exception):
    """An Apache process did not start, or stopped before it was ready."""


def java_command(
    main_class: str,
    *arguments: str,
    class_path: str,
    home: Path,
    heap: tuple[str, ...] = (),
    properties: Mapping[str, str] | None = None,
    tuning: tuple[str, ...] = _SMALL,
) -> list[str]:
    """The command line of a JVM whose logs stay under `home`."""
    # Without this the client library writes its log to the user's home folder.
    chosen = {"user.home": str(home), "rocketmq.client.logRoot": str(home / "logs")}
    defines = [f"-D{name}={value}" for name, value in (chosen | dict(properties or {})).items()]
    return [
        "java",
        *heap,
        *tuning,
        *_REFLECTION,
        *defines,
        "-cp",
        class_path,
        main_class,
        *arguments,
    ]


class _Server:
    """One JVM: started, watched until it says it is ready, stopped by its process id."""

    _main_class: str
    _heap: tuple[str, ...]
    _tuning = _SMALL
    _security = NO_TLS
    _boot_words = "boot success"

    def __init__(
        self,
        folder: Path,
        port: int,
        conf: Mapping[str, object],
        properties: Mapping[str, str] | None,
    ) -> None:
        self.folder = folder
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self.conf = dict(conf)
        self._properties = self._security | dict(properties or {})
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def log(self) -> str:
        """All that the process printed since the last start."""
        path = self.folder / "server.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        return self._running().pid

    def start(self) -> Self:
        """Start and wait until the server serves; raises PeerFailed with its log if it does not."""
        assert self._process is None, "already started"
        conf_file = self._write_conf()
        command = java_command(
            self._main_class,
            "-c",
            str(conf_file),
            heap=self._heap,
            tuning=self._tuning,
            class_path=jars.class_path(),
            home=self.folder,
            properties=self._properties,
        )
        with (self.folder / "server.log").open("wb") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=os.environ | {"ROCKETMQ_HOME": str(self.folder)},
            )
        try:
            self._wait_ready()
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self) -> None:
        """Ask it to end, and insist after STOP_S_MAX; does nothing if it is not running."""
        if self._process is None:
            return
        # A paused process gets no SIGTERM until it is resumed.
        self._process.send_signal(signal.SIGCONT)
        self._process.terminate()
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def kill(self) -> None:
        """End it at once, as a machine failure would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self) -> None:
        """Freeze it: connections stay open, nothing is answered."""
        freeze(self._running())

    def resume(self) -> None:
        """Undo pause()."""
        self._running().send_signal(signal.SIGCONT)

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "not started"
        return self._process

    def _write_conf(self) -> Path:
        write_home(self.folder)
        path = self.folder / "server.conf"
        path.write_text("".join(f"{key}={value}\n" for key, value in self.conf.items()))
        return path

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + START_S_MAX
        while not (self._boot_words in self.log and ports.accepts(self.port)):
            code = self._running().poll()
            if code is not None:
                raise PeerFailed(self._tell(f"ended with {code}"))
            if time.monotonic() > deadline:
                raise PeerFailed(self._tell(f"was not ready after {START_S_MAX} s"))
            time.sleep(_POLL_S)

    def _tell(self, what: str) -> str:
        return f"{self._main_class} {what}; it printed:\n{self.log[-_LOG_CHARACTERS_SHOWN:]}"


class ApacheNamesrv(_Server):
    """Apache's name server on a free port of 127.0.0.1."""

    _main_class = "org.apache.rocketmq.namesrv.NamesrvStartup"
    _heap = ("-Xms128m", "-Xmx128m")

    def __init__(
        self,
        folder: Path,
        *,
        conf: Mapping[str, object] | None = None,
        port: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        folder = folder.absolute()
        port = port or ports.free_port()
        own = {
            "listenPort": port,
            "kvConfigPath": folder / "kvConfig.json",
            "configStorePath": folder / "namesrv.properties",
        }
        super().__init__(folder, port, own | dict(conf or {}), properties)


def broker_conf(
    folder: Path, port: int, namesrv: str, name: str, cluster: str, broker_id: int
) -> dict[str, object]:
    """What a broker's settings file says, whoever's the broker is."""
    store = folder / "store"
    return {
        "brokerClusterName": cluster,
        "brokerName": name,
        "brokerId": broker_id,
        "brokerRole": "SLAVE" if broker_id else "ASYNC_MASTER",
        "brokerIP1": "127.0.0.1",
        "brokerIP2": "127.0.0.1",
        "listenPort": port,
        "namesrvAddr": namesrv,
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        # Small files: the defaults take 1 GiB for the log and 400 MiB for an index.
        "mappedFileSizeCommitLog": 64 << 20,
        "mappedFileSizeConsumeQueue": 20 * 2048,
        "maxHashSlotNum": 10_000,
        "maxIndexNum": 40_000,
        "diskMaxUsedSpaceRatio": 95,
    }


class ApacheBroker(_Server):
    """Apache's broker on a free port of 127.0.0.1, registered at `namesrv` when start() returns."""

    _main_class = "org.apache.rocketmq.broker.BrokerStartup"
    _heap = ("-Xms512m", "-Xmx512m", "-Xmn256m")

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
        properties: Mapping[str, str] | None = None,
    ) -> None:
        folder = folder.absolute()
        port = port or ports.free_broker_port()
        own = broker_conf(folder, port, namesrv, name, cluster, broker_id)
        self.name = name
        super().__init__(
            folder, port, own | dict(conf or {}), _DISK_LIMITS | dict(properties or {})
        )


def write_home(folder: Path) -> None:
    """Make `folder` a ROCKETMQ_HOME: the servers do not start without their logback files."""
    (folder / "conf").mkdir(parents=True, exist_ok=True)
    for program in ("namesrv", "broker", "tools"):
        (folder / "conf" / f"logback_{program}.xml").write_text("<configuration/>\n")


def mqadmin(
    *arguments: str,
    namesrv: str | None = None,
    timeout: float = 150,
    properties: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run Apache's admin tool; stdout has stderr too. It exits with 0 even if the command fails."""
    if namesrv is not None:
        arguments += ("-n", namesrv)
    with tempfile.TemporaryDirectory(prefix="mqadmin-") as folder:
        home = Path(folder)
        write_home(home)
        command = java_command(
            "org.apache.rocketmq.tools.command.MQAdminStartup",
            *arguments,
            class_path=jars.class_path(),
            home=home,
            properties=properties,
        )
        return subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            cwd=home,  # consumerStatus leaves a folder where it runs
            env=os.environ | {"ROCKETMQ_HOME": folder},
        )
