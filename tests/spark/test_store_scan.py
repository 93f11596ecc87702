"""Reading store files, live and copied, compared with reads over the network."""

import shutil
import time
from pathlib import Path

import pytest

from cometmq.errors import BadSetting
from cometmq.protocol.flags import MessageFlag
from cometmq.protocol.records.compression import compress
from peers.apache import ApacheBroker
from peers.comet import CometBroker
from spark.rows import NEEDS
from spark.sender import Sender, numbered

pytest.importorskip("pyspark", reason=NEEDS)
from cometmq.spark.files.store_scan import StoreSource
from cometmq.spark.read.pull import DataLost
from cometmq.spark.read.source import RocketMQSource

TOPICS = "scanned,packed"
PACKED, ROWS = 6, 9006
HOSTS = {ApacheBroker: "[::1]", CometBroker: "127.0.0.1"}  # cometmq listens on one address family


def rows_of(source):
    reader = source.reader(None)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: (row["topic"], row["queueId"], row["queueOffset"]))


def scan(folder, **options):
    path = str(folder)
    return rows_of(StoreSource({"path": path, "brokerName": "broker-a", **options}))


@pytest.fixture(scope="module")
def store(cluster):
    """The folder of a running broker and its messages, read over the network."""
    sender = Sender(cluster.broker.address)
    sender.create("scanned", 3)
    sender.create("packed", 1)
    for queue in range(3):
        sender.batch("scanned", queue, list(numbered(3000, first=queue * 3000)))
    for kind in (MessageFlag.ZLIB, MessageFlag.LZ4, MessageFlag.ZSTD):
        body = compress(b"much of the same " * 100, kind)
        sender.one("packed", 0, body, "TAGS\x01t", int(MessageFlag.COMPRESSED | kind))
    sender.one("packed", 0, b"half", "TRAN_MSG\x01true\x02PGROUP\x01g\x02UNIQ_KEY\x01A1", 4)
    sender.close()
    far = Sender(f"{HOSTS[type(cluster.broker)]}:{cluster.broker.port}")
    far.batch("packed", 0, [(b"one of a batch", {}), (b"far", {"TAGS": "t"}), (b"plain", {})])
    far.close()
    network = rows_of(RocketMQSource({"nameServer": cluster.namesrv.address, "subscribe": TOPICS}))
    assert len(network) == ROWS
    folder = cluster.broker.folder / "store"
    deadline = time.monotonic() + 30
    while len(scan(folder, subscribe=TOPICS, columns="topic,queueId,queueOffset")) < ROWS:
        assert time.monotonic() < deadline, "the queue files are not flushed"
        time.sleep(0.2)
    return folder, network


@pytest.fixture
def copied(store, tmp_path):
    """A copy of the store, made while the broker runs."""
    shutil.copytree(store[0], tmp_path / "store", ignore=shutil.ignore_patterns("lock"))
    return tmp_path / "store", store[1]


def test_live_store_and_copy_equal_network_read(cluster, store, copied):
    for folder, network in (store, copied):
        assert scan(folder, subscribe=TOPICS) == network
        assert scan(folder, subscribe=TOPICS, by="log") == network
        assert scan(folder, subscribe=TOPICS, verifyCrc="true") == network
    assert [row["body"] for row in network[:3]] == [b"much of the same " * 100] * 3
    hosts = {row["bornHost"].rpartition(":")[0] for row in network}
    assert hosts == {"127.0.0.1", HOSTS[type(cluster.broker)].strip("[]")}


def test_scan_of_the_log_without_queues(copied):
    folder, network = copied
    shutil.rmtree(folder / "consumequeue")
    found = scan(folder)
    assert [row for row in found if row["topic"] in TOPICS.split(",")] == network
    halves = [row for row in found if row["topic"] == "RMQ_SYS_TRANS_HALF_TOPIC"]
    assert [row["body"] for row in halves] == [b"half"]
    assert scan(folder, subscribe="packed") == network[:PACKED]


def test_small_partitions_times_and_patterns(copied):
    folder, network = copied
    assert scan(folder, subscribe=TOPICS, maxRecordsPerPartition="700") == network
    assert scan(folder, subscribePattern="scan.*") == network[PACKED:]
    moment = network[5000]["storeTimestamp"]
    milliseconds = str(int(moment.timestamp() * 1000))
    wanted = [row for row in network if row["storeTimestamp"] >= moment]
    assert scan(folder, subscribe=TOPICS, startingTimestamp=milliseconds) == wanted
    wanted = [row for row in network if row["storeTimestamp"] < moment]
    assert scan(folder, subscribe=TOPICS, endingTimestamp=milliseconds) == wanted


def test_damaged_record_fails_or_is_skipped(copied):
    folder, network = copied
    first = sorted((folder / "commitlog").iterdir())[0]
    data = bytearray(first.read_bytes())
    at = data.index(b"%010d" % 1234) - 88  # the head of a record of queue 0
    data[at + 4 : at + 8] = b"\0\0\0\0"
    first.write_bytes(data)
    for way in ("queues", "log"):
        with pytest.raises(DataLost, match="failOnDataLoss=false"):
            scan(folder, subscribe=TOPICS, by=way)
        found = scan(folder, subscribe=TOPICS, by=way, failOnDataLoss="false")
        assert found == [row for row in network if row["body"][:10] != b"%010d" % 1234]


def test_torn_last_record_is_skipped(copied):
    folder, network = copied
    last = max(path for path in (folder / "commitlog").iterdir() if has_records(path))
    data = bytearray(last.read_bytes())
    at = data.rindex(b"plain")
    data[at + 2 :] = bytes(len(data) - at - 2)
    last.write_bytes(data)
    shutil.rmtree(folder / "consumequeue")
    assert scan(folder, subscribe=TOPICS) == [row for row in network if row["body"] != b"plain"]


def has_records(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) != bytes(4)


def test_verify_crc_detects_a_changed_body(copied):
    folder, network = copied
    last = max(path for path in (folder / "commitlog").iterdir() if has_records(path))
    data = bytearray(last.read_bytes())
    at = data.rindex(b"plain")
    data[at : at + 5] = b"plane"
    last.write_bytes(data)
    assert len(scan(folder, subscribe=TOPICS)) == len(network)
    with pytest.raises(DataLost, match="the body of the record at"):
        scan(folder, subscribe=TOPICS, verifyCrc="true")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "option path is missing"),
        ({"path": "/nowhere"}, "folder /nowhere/commitlog does not exist"),
        ({"path": "HERE", "by": "heart"}, "option by is 'heart'"),
        ({"path": "HERE", "subscribe": "unheard"}, "the store has no topic unheard"),
        ({"path": "HERE", "colums": "body"}, "did you mean columns"),
    ],
)
def test_errors_name_the_option(store, options, words):
    given = {name: value.replace("HERE", str(store[0])) for name, value in options.items()}
    with pytest.raises(BadSetting, match=words):
        rows_of(StoreSource(given))


def test_scan_writes_no_files(store):
    folder, _ = store

    def files():  # a running broker writes its state to temporary files first
        return {path for path in folder.iterdir() if path.suffix != ".tmp"}

    before = files()
    scan(folder)
    assert files() == before
