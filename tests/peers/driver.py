"""Runs our Java programs (java/*.java), which drive Apache's client and its classes.

They are compiled once per content of the sources, into the cache folder. A program speaks in lines:
JSON objects on stdout; it ends when it has done its work or when its stdin is closed.
"""

import hashlib
import json
import os
import queue
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from peers.apache import java_command, write_home
from peers.jars import PeerMissing, cache_lock, class_path, suite_class_path

_SOURCES = Path(__file__).parent / "java"
_STOP_S_MAX = 15
_HEAP = ("-Xms64m", "-Xmx256m")
# How often a consumer looks whether its share is another, of its own accord: 20 s is much to wait.
REBALANCE = {"rocketmq.client.rebalance.waitInterval": "3000"}


class DriverFailed(Exception):
    """A Java program ended with an error, or said nothing for too long; the text has its output."""


def driver_class_path() -> str:
    """Class path with our programs compiled and Apache's jars."""
    return compiled_class_path(_SOURCES, class_path(), "drivers")


def suite_driver_class_path() -> str:
    """Class path of Apache's integration tests, preceded by our BaseConf and RunSuite."""
    return compiled_class_path(_SOURCES / "suite", suite_class_path(), "suite-drivers")


def compiled_class_path(folder_of_sources: Path, jars: str, prefix: str) -> str:
    """Compile the sources of a folder, once per content: their class path, then the jars."""
    sources = sorted(folder_of_sources.glob("*.java"))
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()
    with cache_lock() as folder:
        classes = folder / f"{prefix}-{digest[:16]}"
        if not classes.exists():
            _compile(sources, jars, classes)
    return os.pathsep.join((str(classes), jars))


def _compile(sources: list[Path], jars: str, classes: Path) -> None:
    if shutil.which("javac") is None:
        raise PeerMissing("no javac on the PATH to compile the drivers")
    # Compiled beside its place and moved there whole: a folder of that name is a complete one.
    with tempfile.TemporaryDirectory(dir=classes.parent) as partial:
        done = subprocess.run(
            [
                "javac",
                "-encoding",
                "UTF-8",
                "-proc:none",
                "-nowarn",
                "-cp",
                jars,
                "-d",
                partial,
                *map(str, sources),
            ],
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            raise DriverFailed(f"javac failed:\n{done.stdout}{done.stderr}")
        shutil.copytree(partial, classes)


class JavaProgram:
    """A program of ours that is running. Its lines are read by a thread, so it never blocks."""

    def __init__(
        self,
        main_class: str,
        *arguments: object,
        properties: Mapping[str, str] | None = None,
        classes: str | None = None,
        heap: tuple[str, ...] = _HEAP,
    ) -> None:
        self._name = main_class
        self._home = tempfile.TemporaryDirectory(prefix="driver-")
        self._errors = Path(self._home.name) / "stderr"
        home = Path(self._home.name)
        write_home(home)
        # Without a configuration the log library prints every step of its libraries.
        quiet = {
            "logback.configurationFile": str(home / "conf" / "logback_tools.xml"),
            "rocketmq.home.dir": str(home),
        }
        command = java_command(
            main_class,
            *map(str, arguments),
            class_path=classes or driver_class_path(),
            home=home,
            heap=heap,
            properties=quiet | dict(properties or {}),
        )
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                text=True,
                cwd=home,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def next(self, timeout: float = 60) -> Any:
        """The next value it printed; DriverFailed if none came in time or it has ended."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                raise DriverFailed(self._tell(f"printed nothing for {timeout} s")) from None
            if line is None:
                self._lines.put(None)
                raise DriverFailed(self._tell("has ended"))
            # Apache's client prints a few lines of its own.
            if line.startswith("{"):
                return json.loads(line)

    def end_input(self) -> None:
        """Close its stdin: it ends in good order."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def rest(self, timeout: float = 120) -> list[Any]:
        """Wait for its end; what it printed since the last next(). DriverFailed if it failed."""
        try:
            code = self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise DriverFailed(self._tell(f"has not ended after {timeout} s")) from None
        self._reader.join()
        lines = [line for line in self._lines.queue if line is not None]
        if code != 0:
            raise DriverFailed(self._tell(f"ended with {code}", "".join(lines)))
        return [json.loads(line) for line in lines if line.startswith("{")]

    def stop(self) -> None:
        """End it: by end of input, then by signal."""
        self.end_input()
        try:
            self._process.wait(_STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()
        self._home.cleanup()

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def _tell(self, what: str, printed: str = "") -> str:
        errors = self._errors.read_text(errors="replace")
        return f"{self._name} {what}\n{printed}{errors}"


def start_java(
    main_class: str, *arguments: object, properties: Mapping[str, str] | None = None
) -> JavaProgram:
    """Start a program that goes on until its input ends; use it as a context manager."""
    return JavaProgram(main_class, *arguments, properties=properties)


def run_java(
    main_class: str,
    *arguments: object,
    timeout: float = 120,
    properties: Mapping[str, str] | None = None,
) -> list[Any]:
    """Run a program to its end; the values it printed, one per line. Raises DriverFailed."""
    with start_java(main_class, *arguments, properties=properties) as program:
        try:
            return program.rest(timeout)
        except DriverFailed:
            program.kill()
            raise
