"""SQL consumers of Apache's client on queues with extensions, of our broker and Apache's in turn.

With the bits that a broker keeps of each message, or without: each gets what it wants, whoever
wrote the store that is served.
"""

from contextlib import ExitStack

import pytest

from cometmq.disk import RealDisk
from cometmq.protocol.filter.bloom import BloomFilter
from cometmq.store.queue.consume_queue import UNIT
from cometmq.store.queue.queue_extension import QueueExtension, is_address
from peers import ports
from peers.apache import ApacheBroker, mqadmin
from peers.comet import CometBroker, CometNamesrv
from peers.driver import run_java, start_java

pytestmark = [
    pytest.mark.apache,
    pytest.mark.timeout(400),
    pytest.mark.usefixtures("apache_class_path"),
]

TOPIC, COUNT = "Bits", 40
FILE_SIZE = 1024  # of extensions: there are several
COLOURS = ("red", "blue")
OFF = {"enablePropertyFilter": "true"}
ON = OFF | {
    "enableConsumeQueueExt": "true",
    "enableCalcFilterBitMap": "true",
    "mappedFileSizeConsumeQueueExt": FILE_SIZE,
}


class Stage:
    """One folder and one port, on which brokers take turns."""

    def __init__(self, folder, conf):
        self._folder, self._conf = folder, conf
        self._port = ports.free_broker_port()
        self._namesrv = CometNamesrv(folder / "namesrv")
        self.store = folder / "broker" / "store"
        self.rounds = 0

    def __enter__(self):
        self._namesrv.start()
        return self

    def __exit__(self, *_):
        self._namesrv.kill()

    def play(self, make):
        """Consumers of each colour, then messages of each, on this broker."""
        broker = make(
            self._folder / "broker", namesrv=self._namesrv.address, port=self._port,
            conf=self._conf,
        )  # fmt: skip
        broker.start()
        try:
            if not self.rounds:
                mqadmin("updateTopic", "-t", TOPIC, "-c", "DefaultCluster", "-r", "1", "-w", "1",
                        namesrv=self._namesrv.address)  # fmt: skip
            with ExitStack() as started:
                self._play(started)
        finally:
            # Ours ends in order, Apache's, which takes a minute for that, does not.
            broker.stop() if isinstance(broker, CometBroker) else broker.kill()
        self.rounds += 1

    def _play(self, started):
        namesrv, number = self._namesrv.address, self.rounds
        wanted = {f"known_{colour}": f"sql=TAGS = '{colour}'" for colour in COLOURS}
        wanted |= {f"tags_{colour}": f"filter={colour}" for colour in COLOURS}
        consumers = {group: self._start(started, group, how) for group, how in wanted.items()}
        for colour in COLOURS:
            run_java("Produce", namesrv, TOPIC, "makers", COUNT, f"{number}-{colour}",
                     f"tag={colour}")  # fmt: skip
        for group, consumer in consumers.items():
            self._check(consumer, group, [number])
        # One that comes new gets what was stored before any broker knew of it.
        fresh = f"fresh{number}_red"
        everything = self._start(started, fresh, "sql=TAGS = 'red'")
        self._check(everything, fresh, range(number + 1))

    def _start(self, started, group, how):
        consumer = started.enter_context(
            start_java("Consume", self._namesrv.address, TOPIC, group, 0, how)
        )
        started.callback(consumer.kill)  # an orderly end takes it long
        assert consumer.next(timeout=150)["status"] == "STARTED"
        return consumer

    def _check(self, consumer, group, rounds):
        """All messages of these rounds come, and none of the other colour ever."""
        colour = group.partition("_")[2]
        left = {f"{number}-{colour}-{i}" for number in rounds for i in range(COUNT)}
        while left:
            body = consumer.next(timeout=150)["body"]
            assert colour in body
            left.discard(body)


@pytest.mark.parametrize(
    ("makes", "conf"),
    [
        ((CometBroker, CometBroker), OFF),
        ((CometBroker, ApacheBroker, CometBroker), ON),
        ((ApacheBroker, CometBroker, ApacheBroker), ON),
    ],
    ids=["off", "ours-first", "apache-first"],
)
def test_each_gets_what_it_wants(tmp_path, makes, conf):
    with Stage(tmp_path, conf) as stage:
        for make in makes:
            stage.play(make)
    units = [
        unit
        for path in sorted((stage.store / "consumequeue" / TOPIC / "0").iterdir())
        for unit in UNIT.iter_unpack(path.read_bytes())
        if unit[1] > 0
    ]
    assert len(units) == len(makes) * len(COLOURS) * COUNT
    if conf is ON:
        check_bits(stage.store, [address for _, _, address in units])
    else:
        assert not any(is_address(code) for _, _, code in units)


def check_bits(store, addresses):
    """Whoever wrote them: there are bits for each message, and they are of its colour."""
    extension = QueueExtension(store / "consumequeue_ext" / TOPIC / "0", FILE_SIZE, RealDisk())
    extension.load(addresses[-1])
    bloom = BloomFilter(20, 32)
    marks = {colour: bloom.positions(f"known_{colour}#{TOPIC}") for colour in COLOURS}
    for number, address in enumerate(addresses):
        colour, other = COLOURS if number // COUNT % 2 == 0 else COLOURS[::-1]
        bits = extension.get(address).bits
        assert len(bits) * 8 == bloom.bits_max
        assert bloom.matches(bits, marks[colour])
        assert not bloom.matches(bits, marks[other])
