"""Chooses the Python of Spark's worker processes: this one, with the installed pyspark.

Spark puts an archive of pyspark first on the path of workers. Each process compiles the code of the
archive again: 0.7 s of CPU at the start of every streaming query and of a first batch. A wrapper
script for `python` removes the archive from the path, because the same code is installed.

Spark checks for its Python with a shell and does not quote the path: with a space in the path, it
finds no format written in Python. The script is therefore never in such a folder.
"""

import atexit
import hashlib
import os
import shlex
import shutil
import sys
import tempfile
from functools import cache as cached
from pathlib import Path

import pyspark

from cometmq.spark.setup.script import write_script

_VARIABLE = "PYSPARK_PYTHON"
_SCRIPT = """#!/bin/sh
# Written by cometmq: removes the pyspark archive from the path.
set -f
IFS=:
rest=
for part in $PYTHONPATH; do
    case "$part" in
        "{archives}"/*.zip) ;;
        *) rest="$rest:$part" ;;
    esac
done
unset IFS
PYTHONPATH="${{rest#:}}"
export PYTHONPATH
exec "{python}" "$@"
"""


def use_python(cache: Path | None = None) -> str:
    """Set PYSPARK_PYTHON of this process, unless it is set, and return it.

    Only for a Spark on this machine: other machines do not have the script.
    """
    if _VARIABLE not in os.environ:
        try:
            os.environ[_VARIABLE] = str(_script(cache))
        except OSError:  # not writable: the script only saves time
            os.environ[_VARIABLE] = sys.executable
    return os.environ[_VARIABLE]


def _script(cache: Path | None) -> Path:
    if os.name != "posix":
        raise OSError("the script needs a POSIX shell")
    archives = Path(pyspark.__file__).parent / "python" / "lib"
    text = _SCRIPT.format(archives=archives, python=sys.executable)
    folder = cache or Path.home() / ".cache" / "cometmq" / "python"
    if shlex.quote(str(folder)) != str(folder):
        folder = _plain_folder()
    name = hashlib.sha256(text.encode()).hexdigest()[:16]  # one script per environment
    return write_script(folder / name / "python", text)


@cached
def _plain_folder() -> Path:
    """Create a temporary folder, because the user's folder name needs quoting in a shell."""
    folder = tempfile.mkdtemp(prefix="cometmq-python-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
