"""Writes wrapper scripts that replace a program, such as `java` or `python`."""

import os
import stat
from pathlib import Path


def write_script(path: Path, text: str) -> Path:
    """Write the script if its text differs. Atomic, because other processes may run it."""
    if not path.exists() or path.read_text() != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        spare = path.with_name(f"{path.name}.{os.getpid()}")
        spare.write_text(text)
        spare.chmod(spare.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
        spare.replace(path)
    return path
