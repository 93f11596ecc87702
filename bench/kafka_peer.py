"""A Kafka broker of one node and Spark's Kafka connector, for comparison with the pipeline.

Jars are downloaded from Maven Central into the cache folder of tests/peers.
"""

import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pyspark

from peers import ports
from peers.jars import PeerMissing, cache_folder

KAFKA = "3.9.1"
_SCALA = "2.13"
_POOL = "2.12.0"
# Versions of the connector and of its token provider: those of the installed Spark, or older ones
# that also work, because not all mirrors have all versions.
_CONNECTORS = ((pyspark.__version__, pyspark.__version__), ("4.2.0", "4.0.0"))
_FETCH_S_MAX = 600
_START_S_MAX = 120
_MARKER = ".complete"
_POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>cometmq.bench</groupId>
  <artifactId>kafka</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>
{dependencies}  </dependencies>
</project>
"""
_DEPENDENCY = """\
    <dependency>
      <groupId>{group}</groupId>
      <artifactId>{name}</artifactId>
      <version>{version}</version>
{exclusions}    </dependency>
"""
_ALONE = """\
      <exclusions>
        <exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>
      </exclusions>
"""
_CONF = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={folder}/log
num.partitions={partitions}
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


Artifact = tuple[str, str, str]  # group, name, version


def _fetched(artifacts: Sequence[Artifact], exclusions: str = "") -> Path:
    """Return a folder with the jars and their dependencies, unless they are excluded."""
    _, name, version = artifacts[0]
    lib = cache_folder().parent / f"{name}-{version}"
    if (lib / _MARKER).exists():
        return lib
    maven = shutil.which("mvn")
    if maven is None:
        raise PeerMissing("the jars of Kafka are not cached, and mvn is not on the PATH")
    lib.mkdir(parents=True, exist_ok=True)
    dependencies = "".join(
        _DEPENDENCY.format(group=group, name=name, version=version, exclusions=exclusions)
        for group, name, version in artifacts
    )
    pom = lib / "pom.xml"
    pom.write_text(_POM.format(dependencies=dependencies))
    command = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    command += [f"-DoutputDirectory={lib}", "-DincludeScope=runtime"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_S_MAX)
    if done.returncode != 0:
        raise PeerMissing(f"mvn could not fetch {name} {version}")
    (lib / _MARKER).touch()
    return lib


def connector() -> tuple[str, list[Path]]:
    """Return the version of Spark's Kafka connector and the jars that Spark does not have."""
    reason = ""
    for version, tokens in _CONNECTORS:
        artifacts = [
            ("org.apache.spark", f"spark-sql-kafka-0-10_{_SCALA}", version),
            ("org.apache.spark", f"spark-token-provider-kafka-0-10_{_SCALA}", tokens),
            ("org.apache.kafka", "kafka-clients", KAFKA),
            ("org.apache.commons", "commons-pool2", _POOL),
        ]
        try:
            return version, sorted(_fetched(artifacts, _ALONE).glob("*.jar"))
        except PeerMissing as missing:
            reason = str(missing)
    raise PeerMissing(reason)


class KafkaBroker:
    """A context manager that runs a broker. Topics are created by the first write."""

    def __init__(self, folder: Path, partitions: int) -> None:
        self._class_path = str(_fetched([("org.apache.kafka", f"kafka_{_SCALA}", KAFKA)]) / "*")
        self._folder = folder
        self._port, self._controller_port = ports.free_port(), ports.free_port()
        self._partitions = partitions
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        self._folder.mkdir(parents=True, exist_ok=True)
        conf = self._folder / "server.properties"
        conf.write_text(
            _CONF.format(
                port=self._port, controller_port=self._controller_port, folder=self._folder,
                partitions=self._partitions,
            )
        )  # fmt: skip
        java = ["java", "-Xmx1g", "-cp", self._class_path]
        cluster_id = "MkU3OEVBNTcwNTJENDM2Qg"
        subprocess.run(
            [*java, "kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", str(conf)],
            check=True, capture_output=True,
        )  # fmt: skip
        log = self._folder / "out"
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                [*java, "kafka.Kafka", str(conf)], stdout=out, stderr=out
            )
        deadline = time.monotonic() + _START_S_MAX
        while not ports.accepts(self._port):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.__exit__()
                raise PeerMissing(f"Kafka's broker does not start: {log.read_text()[-300:]}")
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
