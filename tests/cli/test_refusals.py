"""User errors: one line that names the setting, a non-zero exit code, and no file changed.

Each row is a command line; all of them run with a copy of the same used folder.
"""

import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
from contextlib import contextmanager, nullcontext

import pytest

from peers.comet import COMMAND
from peers.ports import free_broker_port

# Files that are copied in a moment.
SMALL = (
    "mappedFileSizeCommitLog=65536 mappedFileSizeConsumeQueue=2000 maxMessageSize=10000"
    " maxHashSlotNum=100 maxIndexNum=400"
)
# A folder in which not even root can create a file.
NOT_OURS = "/sys/kernel/cometmq"
STATE = ["topics.json", "subscriptionGroup.json", "consumerOffset.json", "delayOffset.json"]
# {folder} was used, {store} is the broker's in it, {port} is free, {file} is no folder.
STANDALONE = f"cometmq standalone {SMALL} --port 0 --store {{folder}}"
BROKER = f"mqbroker {SMALL} bindAddress=127.0.0.1 brokerIP1=127.0.0.1 listenPort={{port}}"
BROKER_THERE = f"{BROKER} storePathRootDir={{store}}"
NAMESRV = "mqnamesrv bindAddress=127.0.0.1 listenPort={port}"
NAMESRV_THERE = f"{NAMESRV} kvConfigPath={{folder}}/namesrv/kvConfig.json"
ADMIN = "cometmq admin topicList"


def environment(home):
    return {**os.environ, "HOME": str(home), "NAMESRV_ADDR": ""}


@pytest.fixture(scope="module")
def used(tmp_path_factory):
    """The folder of a cluster that stored a message and was stopped."""
    home = tmp_path_factory.mktemp("used")
    folder = home / "folder"
    running = subprocess.Popen(
        [COMMAND, "standalone", "--port", "0", "--print-address", "--store", folder,
         *SMALL.split()],
        stdout=subprocess.PIPE, text=True, env=environment(home),
    )  # fmt: skip
    assert running.stdout.readline()
    running.send_signal(signal.SIGTERM)
    assert running.wait(60) == 0
    running.stdout.close()
    kv = folder / "namesrv" / "kvConfig.json"
    kv.parent.mkdir(exist_ok=True)
    kv.write_text(json.dumps({"configTable": {"N": {"k": "v"}}}))
    assert (folder / "store" / "config" / "topics.json").exists()
    return folder


class Place:
    """A copy of the used folder, for one test."""

    def __init__(self, root, used):
        self.root = root
        self.folder = root / "folder"
        shutil.copytree(used, self.folder)
        self.file = root / "file"
        self.file.write_text("not a folder")
        self.port = free_broker_port()

    def line(self, text):
        named = {
            "folder": self.folder, "store": self.folder / "store", "port": self.port,
            "file": self.file, "below": self.port - 2,
        }  # fmt: skip
        return [word.format(**named) for word in text.split()]

    def files(self):
        return {
            str(path.relative_to(self.root)): path.read_bytes() if path.is_file() else None
            for path in self.root.rglob("*")
            if path != self.root / "home" and self.root / "home" not in path.parents
        }

    def refused(self, line, expected, situation=None):
        """Run the command, and check everything that all refusals have in common."""
        home = self.root / "home"
        home.mkdir(exist_ok=True)
        program, *words = self.line(line)
        before = self.files()
        with situation or nullcontext():
            done = subprocess.run(
                [COMMAND.with_name(program), *words], env=environment(home), capture_output=True,
                text=True, check=False, timeout=120, cwd=self.root,
            )  # fmt: skip
        assert done.returncode in (1, 2), done
        assert done.stdout == ""
        name = "cometmq admin" if line.startswith(ADMIN) else program
        assert done.stderr.startswith(f"{name}: ")
        assert done.stderr.count("\n") == 1, done.stderr
        for part in self.line(expected):
            assert part in done.stderr
        assert self.files() == before
        assert not [path for path in home.rglob("*") if path.is_file()], "no file was created"


@pytest.fixture
def place(tmp_path, used):
    return Place(tmp_path, used)


# Command lines, and the words that the error line contains.
BAD_COMMAND_LINES = {
    # A wrong port or address
    f"{STANDALONE} --port 70000": "--port 65535",
    f"{STANDALONE} --port nine": "--port valid",
    f"{STANDALONE} --broker-port -1": "--broker-port",
    f"{STANDALONE} --broker-port 1": "--broker-port",
    f"{STANDALONE} --host 192.0.2.77": "192.0.2.77 --host",
    f"{STANDALONE} --prt 1": "--prt",
    f"{BROKER_THERE} listenPort=70000": "listenPort=70000 65535",
    f"{BROKER_THERE} listenPort=nine": "listenPort=nine",
    f"{BROKER_THERE} listenPort=2": "listenPort",
    f"{BROKER_THERE} bindAddress=192.0.2.77": "192.0.2.77:{port} bindAddress",
    f"{BROKER_THERE} -n 127.0.0.1:nine": "namesrvAddr '127.0.0.1:nine'",
    f"{BROKER_THERE} -n 127.0.0.1:9876;127.0.0.1": "namesrvAddr '127.0.0.1'",
    f"{NAMESRV_THERE} listenPort=70000": "listenPort=70000",
    f"{NAMESRV_THERE} bindAddress=192.0.2.77": "192.0.2.77 bindAddress",
    f"{ADMIN} -n 127.0.0.1:1": "127.0.0.1:1 -n NAMESRV_ADDR",
    f"{ADMIN} -n 127.0.0.1:70000": "127.0.0.1:70000 -n NAMESRV_ADDR",
    f"{ADMIN} -n 127.0.0.1:nine": "127.0.0.1:nine -n NAMESRV_ADDR",
    f"{ADMIN}": "-n NAMESRV_ADDR",
    "mqadmin brokerStatus -b 127.0.0.1:1": "127.0.0.1:1",
    # A folder that cannot be written to
    f"{STANDALONE} --store {{file}}/x": "{file}/x --store",
    f"{STANDALONE} --store {NOT_OURS}": f"{NOT_OURS} --store",
    f"{STANDALONE} storePathRootDir={{file}}": "{file} storePathRootDir",
    f"{STANDALONE} --log-file {{file}}/log": "--log-file {file}/log",
    f"{BROKER} storePathRootDir={{file}}/x": "{file}/x storePathRootDir",
    f"{BROKER} storePathRootDir={NOT_OURS}": f"{NOT_OURS} storePathRootDir",
    f"{BROKER_THERE} storePathCommitLog={{file}}/x": "{file}/x storePathCommitLog",
    f"{NAMESRV} kvConfigPath={{file}}/kv.json": "{file}/kv.json kvConfigPath",
    f"{NAMESRV_THERE} --log-file {NOT_OURS}/log": f"--log-file {NOT_OURS}/log",
    # An unknown setting, or a bad value
    f"{STANDALONE} brokerNam=x": "brokerNam mean brokerName?",
    f"{STANDALONE} fileReservedTime=-1": "fileReservedTime=-1",
    f"{BROKER_THERE} brokerNam=x": "brokerNam mean brokerName?",
    f"{BROKER_THERE} flushDiskType=NEVER": "flushDiskType=NEVER",
    f"{BROKER_THERE} -c {{file}}": "not",
    f"{NAMESRV_THERE} lisenPort=1": "lisenPort mean listenPort?",
    f"{NAMESRV_THERE} --log-level loud": "--log-level 'loud'",
    f"{NAMESRV_THERE} --log-level info,stoer=debug": "--log-level 'stoer' mean store?",
}


@pytest.mark.parametrize("line", BAD_COMMAND_LINES)
def test_bad_command_lines_are_refused(place, line):
    place.refused(line, BAD_COMMAND_LINES[line])


@pytest.mark.parametrize(
    ("line", "occupied", "expected"),
    [
        ("cometmq standalone --store {folder} --port {port}", "{port}", "--port"),
        (f"{STANDALONE} --broker-port {{port}}", "{port}", "--broker-port"),
        (f"{STANDALONE} --broker-port {{port}}", "{below}", "--broker-port"),
        (BROKER_THERE, "{port}", "listenPort"),
        (BROKER_THERE, "{below}", "listenPort"),
        (NAMESRV_THERE, "{port}", "listenPort"),
    ],
)
def test_a_port_in_use(place, line, occupied, expected):
    (port,) = place.line(occupied)
    with socket.create_server(("127.0.0.1", int(port))):
        place.refused(line, f"127.0.0.1:{port} in use {expected}")


@contextmanager
def held(path):
    with path.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.parametrize(
    ("line", "expected"), [(STANDALONE, "--store"), (BROKER_THERE, "storePathRootDir")]
)
def test_a_store_of_another_process(place, line, expected):
    lock = place.folder / "store" / "lock"
    place.refused(line, f"{lock} another process {expected}", held(lock))


@pytest.mark.parametrize(
    ("line", "name", "backup"),
    [
        (STANDALONE, "topics.json", None),
        (BROKER_THERE, "topics.json", '{"also":'),
        *((BROKER_THERE, name, None) for name in STATE),
    ],
)
def test_a_damaged_state_file(place, line, name, backup):
    file = place.folder / "store" / "config" / name
    file.write_text('{"broken":')
    file.with_name(f"{name}.bak").unlink(missing_ok=True)
    if backup is not None:
        file.with_name(f"{name}.bak").write_text(backup)
    place.refused(line, f"{file} damaged repair .bak")


@pytest.mark.parametrize(
    ("line", "content"), [(STANDALONE, '{"configTable":'), (NAMESRV_THERE, "[]")]
)
def test_a_damaged_state_file_of_the_name_server(place, line, content):
    file = place.folder / "namesrv" / "kvConfig.json"
    file.write_text(content)
    place.refused(line, f"{file} damaged repair")
