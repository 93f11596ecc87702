"""The servers that this user runs on this machine: each has a pid file, by which it is stopped.

A pid file is named `<kind>-<pid>` and contains the start time of the process in the kernel's ticks.
A process that got the pid of a dead server has another start time, and is never stopped by mistake.
"""

import logging
import os
import select
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cometmq.errors import WorldError
from cometmq.log_event import LogEvent

log = logging.getLogger(__name__)

FOLDER = Path(".cometmq") / "run"  # in the user's home
_START_FIELD = 19  # of /proc/<pid>/stat, counted after the process name


@dataclass(frozen=True, slots=True)
class Running:
    """A server process of this user."""

    kind: str
    pid: int

    def stop(self, patience_ms: int) -> None:
        """Send SIGTERM, and wait for the end. Raises WorldError if it takes longer than that."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return
        try:
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
            ended, _, _ = select.select([descriptor], [], [], patience_ms / 1000)
        except ProcessLookupError:
            return
        except PermissionError as error:
            raise WorldError(f"{self.kind} {self.pid} belongs to another user") from error
        finally:
            os.close(descriptor)
        if not ended:
            raise WorldError(f"{self.kind} {self.pid} did not stop within {patience_ms} ms")


@contextmanager
def noted(kind: str, folder: Path | None = None) -> Iterator[None]:
    """Have a pid file of this process inside the `with` block."""
    note = None
    try:  # a user without a home folder can run servers, too
        folder = folder or Path.home() / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        note = folder / f"{kind}-{os.getpid()}"
        note.write_text(_start_ticks(os.getpid()) or "")
    except (OSError, RuntimeError) as error:
        log.info(LogEvent("no pid file: mqshutdown cannot find this process", reason=error))
    try:
        yield
    finally:
        if note is not None:
            _delete(note)


def running(kind: str, folder: Path | None = None) -> list[Running]:
    """All servers of a kind. Deletes the pid files of dead ones."""
    found = []
    try:
        notes = sorted((folder or Path.home() / FOLDER).glob(f"{kind}-*"))
    except (OSError, RuntimeError) as error:
        raise WorldError(f"the pid files cannot be listed: {error}") from error
    for note in notes:
        pid = note.name.removeprefix(f"{kind}-")
        if not pid.isdigit():
            continue
        try:
            text = note.read_text(errors="replace")
        except OSError as error:
            log.warning(LogEvent("unreadable pid file", path=note, reason=error.strerror))
            continue
        if text == _start_ticks(int(pid)):
            found.append(Running(kind, int(pid)))
        else:
            _delete(note)
    return found


def _delete(note: Path) -> None:
    try:
        note.unlink(missing_ok=True)
    except OSError as error:
        log.info(LogEvent("pid file not deleted", path=note, reason=error.strerror))


def _start_ticks(pid: int) -> str | None:
    """The start time of a process in ticks since the boot; None if it is not running."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[_START_FIELD]
