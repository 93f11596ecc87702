"""The jars of Apache RocketMQ 4.9.7, found in a cache folder or fetched there with Maven.

Nothing of theirs enters the work tree. The cache is $COMETMQ_CACHE, or cometmq in the user's cache
folder; removing it makes the next run fetch again.
"""

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VERSION = "4.9.7"
_ROCKETMQ = "org.apache.rocketmq"
# group, artifact, version, type
_SERVERS = tuple(
    (_ROCKETMQ, f"rocketmq-{name}", VERSION, "jar")
    for name in ("namesrv", "broker", "client", "tools", "acl")
)
# Apache's integration tests, and what they are compiled with but do not bring along.
_SUITE = (
    (_ROCKETMQ, "rocketmq-test", VERSION, "jar"),
    (_ROCKETMQ, "rocketmq-test", VERSION, "test-jar"),
    ("junit", "junit", "4.13.2", "jar"),
    ("org.assertj", "assertj-core", "2.6.0", "jar"),
)
_JAVA_VERSION_MIN = 11
_FETCH_S_MAX = 600
_MARKER = ".complete"  # written last, so that a fetch cut short is done again

_POM_HEAD = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>cometmq.tests</groupId>
  <artifactId>peers</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
"""
_POM_DEPENDENCY = """\
    <dependency>
      <groupId>{}</groupId>
      <artifactId>{}</artifactId>
      <version>{}</version>
      <type>{}</type>
    </dependency>
"""
_POM_TAIL = """\
  </dependencies>
</project>
"""


class PeerMissing(Exception):
    """The Apache servers cannot be run on this machine; the text is one line that says why."""


def cache_folder() -> Path:
    """Where fetched jars and compiled drivers are kept; made if it is not there."""
    chosen = os.environ.get("COMETMQ_CACHE")
    if chosen:
        base = Path(chosen)
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cometmq"
    # Absolute: the processes that use it run in folders of their own.
    folder = base.absolute() / f"rocketmq-{VERSION}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def cache_lock() -> Iterator[Path]:
    """Hold the cache alone: two pytest processes must not fetch or compile at the same time."""
    folder = cache_folder()
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def class_path() -> str:
    """The class path of the servers, the client and the tools; fetched at the first call."""
    return _fetched("lib", _SERVERS)


def suite_class_path() -> str:
    """The class path of Apache's integration tests (rocketmq-test); fetched at the first call."""
    return _fetched("suite-lib", _SUITE)


def _fetched(name: str, artifacts: tuple[tuple[str, ...], ...]) -> str:
    java_version()
    with cache_lock() as folder:
        lib = folder / name
        if not (lib / _MARKER).exists():
            _fetch(folder, lib, artifacts)
    return str(lib / "*")


def java_version() -> str:
    """Version of the java on the PATH; PeerMissing if there is none that will do."""
    java = shutil.which("java")
    if java is None:
        raise PeerMissing("no java on the PATH")
    said = subprocess.run([java, "-version"], capture_output=True, text=True).stderr
    found = re.search(r'version "((\d+)[^"]*)"', said)
    # Java 8 calls itself "1.8", which the comparison refuses as it should.
    if found is None or int(found[2]) < _JAVA_VERSION_MIN:
        raise PeerMissing(f"java {_JAVA_VERSION_MIN} or later is needed")
    return found[1]


def _fetch(folder: Path, lib: Path, artifacts: tuple[tuple[str, ...], ...]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerMissing("no cached jars, and no mvn on the PATH to fetch them")
    shutil.rmtree(lib, ignore_errors=True)
    pom = folder / "pom.xml"
    dependencies = (_POM_DEPENDENCY.format(*artifact) for artifact in artifacts)
    pom.write_text(_POM_HEAD + "".join(dependencies) + _POM_TAIL)
    command = [
        maven,
        "-q",
        "-B",
        "-f",
        str(pom),
        "dependency:copy-dependencies",
        f"-DoutputDirectory={lib}",
        "-DincludeScope=runtime",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_S_MAX)
    except subprocess.TimeoutExpired:
        raise PeerMissing(f"mvn did not fetch the jars in {_FETCH_S_MAX} s") from None
    if done.returncode != 0:
        said = (done.stdout + done.stderr).strip().splitlines() or ["no output"]
        raise PeerMissing(f"mvn could not fetch the jars: {said[0]}")
    (lib / _MARKER).touch()
