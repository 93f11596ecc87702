"""Puts, batches, flushes, reads, closes and crashes in any order agree with plain lists."""

import asyncio
import os
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cometmq.disk import RealDisk
from cometmq.protocol.hosts import Host
from cometmq.protocol.java import hash_code
from store.rig import EVER_MS, NOON_MS, message, open_store, read_all, records

EXAMPLES = int(os.environ.get("COMETMQ_MODEL_EXAMPLES", "100"))
QUICK = "/dev/shm" if Path("/dev/shm").is_dir() else None  # where a sync costs nothing
HOSTS = [Host("10.0.0.1", 5), Host("2001:db8::1", 6)]

topics = st.sampled_from(["T", "U", "%RETRY%g"])
queue_ids = st.integers(0, 2)
contents = st.fixed_dictionaries(
    {"body": st.binary(max_size=60) | st.sampled_from([b"", b"x" * 700, b"y" * 3000])},
    optional={
        "TAGS": st.sampled_from(["a", "b", "Aa", "BB"]),  # the last two have the same code
        "KEYS": st.sampled_from(["k1", "k2", "k1 k2", "k3"]),
        "UNIQ_KEY": st.text("AB", min_size=1, max_size=3),
        "born_host": st.sampled_from(HOSTS),
    },
)


def keys_of(properties):
    return {properties.get("UNIQ_KEY"), *properties.get("KEYS", "").split(" ")} - {None, ""}


class StoreMachine(RuleBasedStateMachine):
    """The store on the left, lists on the right."""

    def __init__(self):
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="cometmq-model-", dir=QUICK))
        self.loop = asyncio.new_event_loop()
        self.now_ms = NOON_MS
        self.queues = defaultdict(list)  # what was put, in order, by topic and queue id
        self.log = []  # the same of all queues

    @initialize()
    def open(self):
        self.disk = RealDisk()
        self.store = self.loop.run_until_complete(open_store(self.folder, self.disk).__aenter__())

    def leave(self, how):
        self.loop.run_until_complete(how)
        if self.disk._threads is not None:  # a file that was being made ahead
            self.disk._threads.shutdown()

    def teardown(self):
        self.leave(self.store.__aexit__(None, None, None))
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        shutil.rmtree(self.folder)

    def remember(self, stored, one):
        queue = self.queues[one.topic, one.queue_id]
        assert stored.queue_offset == len(queue)
        assert not self.log or stored.physical_offset >= self.log[-1][0].end
        queue.append((stored, one, self.now_ms))
        self.log.append((stored, one, self.now_ms))

    # Writing

    @rule(topic=topics, queue_id=queue_ids, content=contents, later_ms=st.integers(0, 1500))
    def put(self, topic, queue_id, content, later_ms):
        self.now_ms += later_ms
        one = message(topic=topic, queue_id=queue_id, **content)
        self.remember(self.store.put(one, self.now_ms), one)

    @rule(topic=topics, queue_id=queue_ids, many=st.lists(contents, min_size=1, max_size=6))
    def put_batch(self, topic, queue_id, many):
        batch = [message(topic=topic, queue_id=queue_id, **content) for content in many]
        if sum(len(one.body) + 300 for one in batch) > 4000:
            batch = batch[:1]
        for stored, one in zip(self.store.put_batch(batch, self.now_ms), batch, strict=True):
            self.remember(stored, one)

    @rule(topic=topics, queue_id=queue_ids, count=st.integers(8, 25))
    def put_many(self, topic, queue_id, count):
        """So that queue, log and index files roll."""
        for i in range(count):
            one = message(b"%d" % i * 30, topic, queue_id, KEYS="k1", TAGS="a")
            self.remember(self.store.put(one, self.now_ms), one)

    @rule()
    def flush(self):
        self.loop.run_until_complete(self.store.flush())

    @rule()
    def wait_for_disk(self):
        if self.log:
            self.loop.run_until_complete(self._durable(self.log[-1][0]))

    async def _durable(self, stored):
        await self.store.durable(stored)

    @rule()
    def make_ahead(self):
        """What the timers do every half second."""
        self.store._log.begin_next()

    # Reading

    @rule(topic=topics, queue_id=queue_ids, data=st.data())
    def get(self, topic, queue_id, data):
        queue = self.queues[topic, queue_id]
        offset = data.draw(st.integers(0, max(0, len(queue) - 1)))
        tag = data.draw(st.sampled_from([None, "a", "Aa"]))
        wanted = None if tag is None else lambda code: code == hash_code(tag)
        found = self.store.get(topic, queue_id, offset, 32, wanted)
        assert (found.min_offset, found.max_offset) == (0, len(queue))
        if not queue:
            return
        looked_at = queue[offset : found.next_offset]
        assert looked_at
        expected = [
            item for item in looked_at
            if tag is None or hash_code(tag_of(item[1])) == hash_code(tag)
        ]  # fmt: skip
        self.agree(records(found), expected)

    @rule(topic=topics, key=st.sampled_from(["k1", "k2", "k3", "A", "AB", "none"]))
    def query(self, topic, key):
        expected = [
            item for item in self.log
            if item[1].topic == topic and key in keys_of(properties_of(item[1]))
        ]  # fmt: skip
        self.agree(self.store.query(topic, key, *EVER_MS), expected[::-1][:32])

    @rule(data=st.data())
    def record(self, data):
        if self.log:
            item = data.draw(st.sampled_from(self.log))
            self.agree([self.store.record(item[0].physical_offset)], [item])

    def agree(self, found, expected):
        assert [one.physical_offset for one in found] == [
            at.physical_offset for at, _, _ in expected
        ]
        for one, (stored, sent, put_ms) in zip(found, expected, strict=True):
            assert (one.topic, one.queue_id) == (sent.topic, sent.queue_id)
            assert (one.queue_offset, one.stored_ms) == (stored.queue_offset, put_ms)
            assert (one.body, one.properties_text) == (sent.body, sent.properties_text)
            assert one.born_host == sent.born_host

    # Ends and beginnings

    @rule()
    def close_and_open(self):
        self.leave(self.store.__aexit__(None, None, None))
        assert not (self.folder / "abort").exists()
        self.open()
        self.everything()

    @rule()
    def crash_and_open(self):
        """The process dies, the machine does not: all that was put is there."""
        self.leave(self.store.abandon())
        self.open()
        assert self.store.recovered.bad == ()
        self.everything()

    def everything(self):
        for (topic, queue_id), queue in self.queues.items():
            self.agree(read_all(self.store, topic, queue_id), queue)

    @invariant()
    def bounds(self):
        if hasattr(self, "store"):
            for (topic, queue_id), queue in self.queues.items():
                assert self.store.bounds(topic, queue_id) == (0, len(queue))
            if self.log:
                start, end = self.store.log_bounds
                assert start == 0 and end >= self.log[-1][0].end


def properties_of(sent):
    return dict(item.split("\x01") for item in sent.properties_text.split("\x02") if item)


def tag_of(sent):
    return properties_of(sent).get("TAGS", "")


TestStore = StoreMachine.TestCase
TestStore.settings = settings(
    max_examples=EXAMPLES,
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
