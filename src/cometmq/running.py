"""The servers that run on this machine as this user: noted when they start, so they can be stopped.

A note is a file `<kind>-<pid>` that holds when the process began, as the kernel counts it: a pid
that was given to another process since is never stopped by mistake.
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

log = logging.getLogger(__name__)

FOLDER = Path(".cometmq") / "run"  # in the user's home
_BEGUN_AT = 19  # of the fields of /proc/<pid>/stat after the name


@dataclass(frozen=True, slots=True)
class Running:
    """One of them."""

    kind: str
    pid: int

    def stop(self, patience_ms: int) -> None:
        """Ask it to end, and wait until it has; WorldError if it does not."""
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
            raise WorldError(f"{self.kind} {self.pid} is another user's") from error
        finally:
            os.close(descriptor)
        if not ended:
            raise WorldError(f"{self.kind} {self.pid} has not ended within {patience_ms} ms")


@contextmanager
def noted(kind: str, folder: Path | None = None) -> Iterator[None]:
    """This process is a server of a kind, for as long."""
    note = None
    try:  # a server may have no home: it serves all the same
        folder = folder or Path.home() / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        note = folder / f"{kind}-{os.getpid()}"
        note.write_text(_begun(os.getpid()) or "")
    except (OSError, RuntimeError) as error:
        log.info("mqshutdown will not find this process: %s", error)
    try:
        yield
    finally:
        if note is not None:
            _take_away(note)


def running(kind: str, folder: Path | None = None) -> list[Running]:
    """All of a kind; notes of those that died are taken away."""
    found = []
    try:
        notes = sorted((folder or Path.home() / FOLDER).glob(f"{kind}-*"))
    except (OSError, RuntimeError) as error:
        raise WorldError(f"what runs here cannot be looked up: {error}") from error
    for note in notes:
        pid = note.name.removeprefix(f"{kind}-")
        if not pid.isdigit():
            continue
        try:
            text = note.read_text(errors="replace")
        except OSError as error:
            log.warning("%s cannot be read: %s", note, error.strerror)
            continue
        if text == _begun(int(pid)):
            found.append(Running(kind, int(pid)))
        else:
            _take_away(note)
    return found


def _take_away(note: Path) -> None:
    try:
        note.unlink(missing_ok=True)
    except OSError as error:
        log.info("%s stays: %s", note, error.strerror)


def _begun(pid: int) -> str | None:
    """When a process began, in ticks since the machine did; None if there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return stat.rpartition(")")[2].split()[_BEGUN_AT]
