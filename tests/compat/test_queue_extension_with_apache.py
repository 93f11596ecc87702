"""The extension files that an Apache broker writes for its SQL consumers, read by ours."""

from contextlib import ExitStack

import pytest

from cometmq.disk import RealDisk
from cometmq.protocol.filter.bloom import BloomFilter
from cometmq.protocol.java.values import hash_code
from cometmq.protocol.records.message import unpack_records
from cometmq.store.queue.consume_queue import UNIT
from cometmq.store.queue.queue_extension import QueueExtension, is_address
from peers.apache import mqadmin
from peers.driver import run_java, start_java

pytestmark = [pytest.mark.apache, pytest.mark.timeout(300)]

TOPIC, COUNT = "Extended", 100
FILE_SIZE = 1024  # so that there are several
COLOURS = ("red", "blue")
CONF = {
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "enablePropertyFilter": "true",
    "mappedFileSizeConsumeQueueExt": FILE_SIZE,
}


def fill(namesrv: str) -> None:
    """A consumer of each colour, then messages of each, all of which have arrived."""
    mqadmin("updateTopic", "-t", TOPIC, "-c", "DefaultCluster", "-r", "1", "-w", "1",
            namesrv=namesrv)  # fmt: skip
    with ExitStack() as started:
        consumers = {}
        for colour in COLOURS:
            consumers[colour] = started.enter_context(
                start_java("Consume", namesrv, TOPIC, f"g_{colour}", 0, f"sql=TAGS = '{colour}'")
            )
            started.callback(consumers[colour].kill)  # an orderly end takes it long
            assert consumers[colour].next()["status"] == "STARTED"
        for colour in COLOURS:
            run_java("Produce", namesrv, TOPIC, "producer", COUNT, colour, f"tag={colour}")
            for _ in range(COUNT):
                consumers[colour].next()


def test_what_an_apache_broker_wrote(apache_namesrv, apache_broker, tmp_path):
    namesrv = apache_namesrv().address
    broker = apache_broker(tmp_path, namesrv=namesrv, conf=CONF)
    fill(namesrv)
    broker.kill()  # what it wrote to mapped files stays; an orderly stop takes a minute

    store = tmp_path / "store"
    units = [
        unit
        for path in sorted((store / "consumequeue" / TOPIC / "0").iterdir())
        for unit in UNIT.iter_unpack(path.read_bytes())
        if unit[1] > 0
    ]
    assert len(units) == 2 * COUNT
    assert all(is_address(address) for _, _, address in units)
    extension = QueueExtension(store / "consumequeue_ext" / TOPIC / "0", FILE_SIZE, RealDisk())
    extension.load(units[-1][2])

    bloom = BloomFilter(20, 32)
    marks = {colour: bloom.positions(f"g_{colour}#{TOPIC}") for colour in COLOURS}
    log = (store / "commitlog" / f"{0:020}").read_bytes()
    for number, (offset, size, address) in enumerate(units):
        (record,) = unpack_records(log[offset : offset + size])
        colour, other = COLOURS if number < COUNT else COLOURS[::-1]
        found = extension.get(address)
        assert found.tag_code == hash_code(colour)
        assert found.stored_ms == record.stored_ms
        assert bloom.matches(found.bits, marks[colour])
        assert not bloom.matches(found.bits, marks[other])
        assert len(found.bits) * 8 == bloom.bits_max

    # Goes on where the broker stopped.
    address = extension.append(1, 2, b"bits")
    assert address > units[-1][2]
    assert extension.get(address).bits == b"bits"
