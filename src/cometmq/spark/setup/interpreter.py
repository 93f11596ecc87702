"""A Python for the processes that Spark starts: this one, with pyspark from where it is installed.

Spark puts an archive of pyspark in front of their path. Code in an archive is compiled anew by each
process: 0.7 s of CPU at the start of every streaming query and of a first batch, before a message
is read. A script in the place of `python` leaves the archive out, as what it holds is installed.

Spark asks a shell whether its Python is there, and does not quote the path: with a space in it no
format written in Python is found. So the script never lies in such a folder.
"""

import atexit
import hashlib
import os
import shlex
import shutil
import sys
import tempfile
from functools import cache as kept
from pathlib import Path

import pyspark

from cometmq.spark.setup.script import write_script

_VARIABLE = "PYSPARK_PYTHON"
_SCRIPT = """#!/bin/sh
# Made by cometmq: Python without the archive of the pyspark that it has installed.
set -f
IFS=:
kept=
for part in $PYTHONPATH; do
    case "$part" in
        "{archives}"/*.zip) ;;
        *) kept="$kept:$part" ;;
    esac
done
unset IFS
PYTHONPATH="${{kept#:}}"
export PYTHONPATH
exec "{python}" "$@"
"""


def use_python(cache: Path | None = None) -> str:
    """Have Spark find it: sets PYSPARK_PYTHON of this process, unless somebody has.

    For a Spark on this machine: on others the script is not there.
    """
    if _VARIABLE not in os.environ:
        try:
            os.environ[_VARIABLE] = str(_script(cache))
        except OSError:  # no place to write to: what it saves is not worth an error
            os.environ[_VARIABLE] = sys.executable
    return os.environ[_VARIABLE]


def _script(cache: Path | None) -> Path:
    if os.name != "posix":
        raise OSError("there is no shell")
    archives = Path(pyspark.__file__).parent / "python" / "lib"
    text = _SCRIPT.format(archives=archives, python=sys.executable)
    folder = cache or Path.home() / ".cache" / "cometmq" / "python"
    if shlex.quote(str(folder)) != str(folder):
        folder = _plain_folder()
    name = hashlib.sha256(text.encode()).hexdigest()[:16]  # one for each environment
    return write_script(folder / name / "python", text)


@kept
def _plain_folder() -> Path:
    """One for this process, where the user's has a name that a shell would take apart."""
    folder = tempfile.mkdtemp(prefix="cometmq-python-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)
