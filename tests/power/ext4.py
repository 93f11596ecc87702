"""A small ext4 in a file, mounted by a loop device, whose power can be cut."""

import fcntl
import os
import shutil
import struct
import subprocess
import time
from pathlib import Path
from types import TracebackType

_SHUTDOWN = 0x8004587D  # EXT4_IOC_SHUTDOWN
_NO_LOG_FLUSH = 2  # nothing more reaches the disk, not even the journal


def missing() -> str:
    """Why there can be no such file system here; empty if there can."""
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    if not Path("/dev/loop-control").exists():
        return "there are no loop devices"
    for tool in ("mkfs.ext4", "losetup", "mount", "umount"):
        if shutil.which(tool) is None:
            return f"there is no {tool}"
    return ""


class Ext4:
    """`with Ext4(folder, 64) as ext4:` makes, mounts, and leaves nothing behind."""

    def __init__(self, folder: Path, megabytes: int) -> None:
        self._image = folder / "ext4.img"
        self._megabytes = megabytes
        self._device = ""
        self.mount_point = folder / "mnt"

    def __enter__(self) -> "Ext4":
        self.mount_point.mkdir(parents=True)
        with self._image.open("wb") as image:
            image.truncate(self._megabytes << 20)
        quick = "lazy_itable_init=0,lazy_journal_init=0"
        _run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", quick, str(self._image))
        self._device = _run("losetup", "--find", "--show", str(self._image)).strip()
        try:
            self._mount()
        except BaseException:
            self._detach()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        try:
            self._unmount()
        finally:
            self._detach()

    def cut_power(self) -> None:
        """From now on every write fails; what was not synced is gone at the next mount."""
        descriptor = os.open(self.mount_point, os.O_RDONLY)
        try:
            fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _NO_LOG_FLUSH))
        finally:
            os.close(descriptor)

    def restore_power(self) -> None:
        """Nobody may use it any more. The journal is replayed."""
        self._unmount()
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-t", "ext4", self._device, str(self.mount_point))

    def _unmount(self) -> None:
        for _ in range(50):  # a killed process may take a moment to let go
            if not os.path.ismount(self.mount_point):
                return
            done = subprocess.run(["umount", str(self.mount_point)], capture_output=True)
            if done.returncode == 0:
                return
            time.sleep(0.1)
        _run("umount", "--lazy", str(self.mount_point))

    def _detach(self) -> None:
        _run("losetup", "--detach", self._device)


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout
