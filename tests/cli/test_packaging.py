"""The wheel and the sdist: what is in them, and that an empty environment needs nothing else."""

import os
import shutil
import subprocess
import sys
import tarfile
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
OF_SPEED = ["numpy", "uvloop", "lz4", "zstandard"]  # which everything else does without
COMMANDS = ["cometmq", "mqadmin", "mqbroker", "mqnamesrv", "mqshutdown"]

# One message of each size: the second is compressed on its way.
ROUND_TRIP = """
import sys
from cometmq import Message
from cometmq.blocking import Producer, PullConsumer
with Producer("senders", sys.argv[1]) as producer:
    sent = [producer.send(Message("T", body)) for body in (b"hello", b"hello" * 10_000)]
with PullConsumer("takers", sys.argv[1]) as consumer:
    for each in sent:
        (found,) = consumer.pull(each.queue, each.queue_offset, 1).messages
        print(len(found.body))
"""
WITHOUT_LZ4 = """
from cometmq.errors import NotInstalled
from cometmq.protocol.records.compression import compress
from cometmq.protocol.flags import MessageFlag
for kind in (MessageFlag.LZ4, MessageFlag.ZSTD):
    try:
        compress(b"x", kind)
    except NotInstalled as error:
        print(error)
"""


def done(*command, **kwargs):
    """What it printed; it ended well."""
    ran = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, check=False, timeout=240,
        **kwargs,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def built(source, target, kind):
    done(sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", target, cwd=source)
    (found,) = target.glob({"wheel": "*.whl", "sdist": "*.tar.gz"}[kind])
    return found


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    return built(ROOT, tmp_path_factory.mktemp("wheel"), "wheel")


def contents(wheel):
    with ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_a_wheel_holds_the_packages_and_nothing_else(wheel):
    names = set(contents(wheel))
    inside = {name for name in names if ".dist-info/" not in name}
    sources = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and ".egg-info" not in str(path)
    }
    assert inside == sources
    assert "cometmq/py.typed" in inside
    assert {name.partition("/")[2] for name in names - inside} == {
        "METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE",
    }  # fmt: skip
    (metadata,) = (text for name, text in contents(wheel).items() if name.endswith("/METADATA"))
    assert (ROOT / "README.md").read_text() in metadata.decode()


def test_an_sdist_makes_the_same_wheel(wheel, tmp_path):
    sdist = built(ROOT, tmp_path / "sdist", "sdist")
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "unpacked", filter="data")
    (source,) = (tmp_path / "unpacked").iterdir()
    assert {path.name for path in source.iterdir()} == {
        ".gitignore", "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "docs", "pyproject.toml",
        "src",
    }  # fmt: skip
    assert contents(built(source, tmp_path / "wheel", "wheel")) == contents(wheel)


class Installed:
    """The wheel, in an environment with nothing in it but what it needs, and a home of its own."""

    def __init__(self, folder, wheel):
        self.bin = folder / "venv" / "bin"
        self.home = folder / "home"
        self.home.mkdir()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        venv.create(folder / "venv", with_pip=False, symlinks=True)
        install = [*PIP, "--python", self.bin / "python", "install", "--no-compile"]
        ran = subprocess.run([*install, wheel, "pytest"], capture_output=True, text=True)
        if ran.returncode:
            probe = [*PIP, "download", "--no-deps", "-d", folder / "probe", "msgspec"]
            if subprocess.run(probe, capture_output=True).returncode:
                pytest.skip("the package index cannot be reached")
        assert ran.returncode == 0, ran.stderr

    def run(self, name, *words):
        return done(
            self.bin / name, *words, env=self.environment, cwd=self.home,
        )  # fmt: skip


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    return Installed(tmp_path_factory.mktemp("installed"), wheel)


def test_it_serves_a_message(installed):
    assert installed.run("cometmq", "--version").startswith("cometmq ")
    for command in COMMANDS:
        assert installed.run(command, "-h")
    server = subprocess.Popen(
        [installed.bin / "cometmq", "standalone", "--port", "0", "--print-address"],
        stdout=subprocess.PIPE, text=True, env=installed.environment, cwd=installed.home,
    )  # fmt: skip
    with server:
        try:
            address = server.stdout.readline().strip()
            assert installed.run("python", "-c", ROUND_TRIP, address) == "5\n50000\n"
            assert "T" in installed.run("mqadmin", "topicList", "-n", address).split()
        finally:
            server.terminate()
    assert server.returncode == 0


def test_nothing_of_it_needs_the_extra_speed(installed):
    for name in OF_SPEED:
        assert installed.run(
            "python", "-c", f"import importlib.util as u; print(u.find_spec({name!r}))"
        ) == "None\n"  # fmt: skip
    assert "5 of 5 stories succeeded" in installed.run("cometmq", "demo", "--patience", "200")
    told = installed.run("python", "-c", WITHOUT_LZ4).splitlines()
    assert told == [
        f"{kind} bodies need a package: pip install 'cometmq[speed]'" for kind in ("lz4", "zstd")
    ]


def test_the_pytest_plugin_is_found(installed):
    sample = installed.home / "testing"
    shutil.copytree(
        ROOT / "examples" / "testing", sample, ignore=shutil.ignore_patterns("__pycache__")
    )
    assert " passed" in installed.run("python", "-m", "pytest", "-q", sample)
