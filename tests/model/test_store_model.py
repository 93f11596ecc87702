"""Model test of the store: random sequences of puts, batches, rolls, flushes, reads, cleaning,
deletions, closes, kills and power cuts, compared with plain lists.
"""

import asyncio
import os
from bisect import bisect_left
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cometmq.errors import BeingDeleted
from cometmq.protocol.java.values import hash_code
from cometmq.protocol.records.hosts import Host
from cometmq.testing.clock import ManualClock
from crash.shadow_disk import ShadowDisk
from store.rig import EVER_MS, NOON_MS, SIZES, message, open_store, records

EXAMPLES = int(os.environ.get("COMETMQ_MODEL_EXAMPLES", "100"))
HOSTS = [Host("10.0.0.1", 5), Host("2001:db8::1", 6)]
FOLDER = Path("/store")
FILE_SIZE = SIZES["mapped_file_size_commit_log"]
KEPT_MS = 72 * 3_600_000
FILES_A_ROUND_MAX = 10
QUERY_MAX = 64

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
    """Runs each action on the store and on lists, and compares them."""

    def __init__(self):
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock(NOON_MS)
        self.disk = ShadowDisk()
        self.queues = defaultdict(list)  # put messages in order, by topic and queue id
        self.log = []  # put messages of all queues
        self.durable = 0  # the number of them that survive a power cut
        self.start = 0  # the log is dropped before this offset
        self.deleted_to = 0  # and deleted before this offset, whatever happens
        self.firsts = {}  # of queues that lost units of messages that reappeared after a crash

    @initialize()
    def open(self):
        self.disk.wall_ms = self.clock.wall_ms
        store = open_store(FOLDER, self.disk, self.clock)
        self.store = self.loop.run_until_complete(store.__aenter__())

    def teardown(self):
        self.loop.run_until_complete(self.store.__aexit__(None, None, None))
        self.loop.close()

    @property
    def now_ms(self):
        return self.clock.wall_ms()

    def remember(self, stored, one):
        queue = self.queues[one.topic, one.queue_id]
        assert stored.queue_offset == len(queue)
        assert not self.log or stored.physical_offset >= self.log[-1][0].end
        item = stored, one, self.now_ms
        queue.append(item)
        self.log.append(item)

    def kept(self, items):
        return [item for item in items if item[0].physical_offset >= self.start]

    def first_of(self, key):
        """Return the min offset of a queue."""
        queue = self.queues[key]
        return max(len(queue) - len(self.kept(queue)), self.firsts.get(key, 0))

    # Writing

    @rule(topic=topics, queue_id=queue_ids, content=contents, later_ms=st.integers(0, 1500))
    def put(self, topic, queue_id, content, later_ms):
        self.clock.jump(later_ms)
        one = message(topic=topic, queue_id=queue_id, **content)
        self.remember(self.store.put(one, self.now_ms), one)

    @rule(topic=topics, queue_id=queue_ids, many=st.lists(contents, min_size=1, max_size=6))
    def put_batch(self, topic, queue_id, many):
        batch = [message(topic=topic, queue_id=queue_id, **content) for content in many]
        if sum(len(one.body) + 300 for one in batch) > 4000:
            batch = batch[:1]
        for stored, one in zip(self.store.put_all(batch, self.now_ms), batch, strict=True):
            self.remember(stored, one)

    @rule(topic=topics, queue_id=queue_ids, count=st.integers(8, 25))
    def put_many(self, topic, queue_id, count):
        """Put enough messages to roll queue, log and index files."""
        for i in range(count):
            one = message(b"%d" % i * 30, topic, queue_id, KEYS="k1", TAGS="a")
            self.remember(self.store.put(one, self.now_ms), one)

    @rule()
    def flush(self):
        self.loop.run_until_complete(self.store.flush())
        self.durable = len(self.log)
        self.deleted_to = self.store.log_bounds[0]

    @rule()
    def wait_for_disk(self):
        if self.log:
            self.loop.run_until_complete(self._durable(self.log[-1][0]))
            self.durable = len(self.log)

    async def _durable(self, stored):
        await self.store.durable(stored)

    @rule()
    def make_ahead(self):
        """Do the work that timers do every half second."""
        self.store._log.begin_next()

    @rule(seed=st.integers(0, 99))
    def write_back(self, seed):
        """Write back pages, as the kernel does at any time."""
        self.disk.write_back(Random(seed))

    @rule()
    def clean(self):
        """Clean three days later, when all files except the active one are too old."""
        self.flush()
        self.clock.jump(KEPT_MS + 1)
        start, end = self.store.log_bounds
        files = max(1, -(-(end - start) // FILE_SIZE))
        assert self.store.clean() == min(files - 1, FILES_A_ROUND_MAX)
        self.flush()
        self.what_is_gone()

    @rule()
    def clean_what_is_new(self):
        """Check that cleaning removes nothing new."""
        self.store.clean()
        self.what_is_gone()

    @rule(later_ms=st.sampled_from([KEPT_MS // 2, KEPT_MS + 1]))
    def clean_unflushed(self, later_ms):
        """Clean while queue units and keys may be in memory only. Nothing is deleted yet."""
        self.clock.jump(later_ms)
        self.store.clean()
        self.what_is_gone()

    @rule(
        topic=topics, queue_id=queue_ids, count=st.integers(0, 40), step=st.integers(0, 40),
        end=st.sampled_from(["kill", "cut"]), seed=st.integers(0, 99),
    )  # fmt: skip
    def clean_and_crash(self, topic, queue_id, count, step, end, seed):
        """Crash before a step of the flush that deletes log files, and open the store twice.

        Queue units of their messages may be in memory only.
        """
        self.put_many(topic, queue_id, count)
        self.wait_for_disk()
        self.clean_unflushed(KEPT_MS + 1)
        image = self._flush_until(step, end, Random(seed))
        if image is not None:
            self.open_after(image, len(self.log) if end == "kill" else self.durable)
            self.kill_and_open()

    def _flush_until(self, step, end, chance):
        """Return the disk before a step of a flush; None if the flush has fewer steps."""
        images, last = [], self.disk.steps + step

        def look():
            if self.disk.steps == last:
                images.append(self.disk.kill() if end == "kill" else self.disk.crash(chance))

        before = self.durable, self.deleted_to
        self.disk.before_step = look
        self.flush()
        self.disk.before_step = None
        if images:
            self.durable, self.deleted_to = before
        return images[0] if images else None

    @invariant()
    def what_is_gone(self):
        if hasattr(self, "store"):
            before, self.start = self.start, self.store.log_bounds[0]
            assert self.start % FILE_SIZE == 0 and self.start >= before
            for stored, _, put_ms in self.log:
                if before <= stored.physical_offset < self.start:
                    assert self.now_ms - put_ms > KEPT_MS, "the file was not old"

    # Reading

    @rule(topic=topics, queue_id=queue_ids, data=st.data())
    def get(self, topic, queue_id, data):
        queue, first = self.queues[topic, queue_id], self.first_of((topic, queue_id))
        offset = data.draw(st.integers(first, max(first, len(queue) - 1)))
        tag = data.draw(st.sampled_from([None, "a", "Aa"]))
        wanted = None if tag is None else lambda code: code == hash_code(tag)
        found = self.store.get(topic, queue_id, offset, 32, wanted)
        assert (found.min_offset, found.max_offset) == (first, len(queue))
        if first == len(queue):
            return
        looked_at = queue[offset : found.next_offset]
        assert looked_at
        expected = [
            item for item in looked_at
            if tag is None or hash_code(tag_of(item[1])) == hash_code(tag)
        ]  # fmt: skip
        self.agree(records(found), expected)

    @rule(topic=topics, key=st.sampled_from(["k1", "k2", "k3", "A", "AB", "none"]), data=st.data())
    def query(self, topic, key, data):
        begin_ms, end_ms = EVER_MS
        if self.log and data.draw(st.booleans()):
            times = st.sampled_from([put_ms for _, _, put_ms in self.log])
            begin_ms, end_ms = sorted((data.draw(times), data.draw(times)))
        expected = [
            item for item in self.kept(self.log)
            if item[1].topic == topic and key in keys_of(properties_of(item[1]))
            and begin_ms <= item[2] <= end_ms
        ]  # fmt: skip
        found = self.store.query(topic, key, begin_ms, end_ms)
        self.agree(found, expected[::-1][:QUERY_MAX])

    @rule(topic=topics, queue_id=queue_ids, shift_ms=st.integers(-2000, 2000), data=st.data())
    def by_time(self, topic, queue_id, shift_ms, data):
        """Check the search by time: it returns the nearest message, the earlier of two."""
        first = self.first_of((topic, queue_id))
        times = [put_ms for _, _, put_ms in self.queues[topic, queue_id][first:]]
        assert self.store.earliest_ms(topic, queue_id) == (times[0] if times else -1)
        if times:
            wanted_ms = data.draw(st.sampled_from(times)) + shift_ms
            found = self.store.offset_by_time(topic, queue_id, wanted_ms) - first
            assert found == nearest(times, wanted_ms)

    @rule(data=st.data())
    def record(self, data):
        if self.log:
            item = data.draw(st.sampled_from(self.log))
            found = self.store.record(item[0].physical_offset)
            if item[0].physical_offset < self.start:
                assert found is None
            else:
                self.agree([found], [item])

    def agree(self, found, expected):
        found = list(found)
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
        self.loop.run_until_complete(self.store.__aexit__(None, None, None))
        assert "abort" not in self.disk.names(FOLDER)
        self.open()
        self.everything()

    @rule()
    def kill_and_open(self):
        """Kill the process: all messages survive, because the machine keeps running."""
        self.open_after(self.disk.kill(), len(self.log))

    @rule(seed=st.integers(0, 2**32))
    def cut_power_and_open(self, seed):
        """Cut the power: flushed messages survive, and some or all later ones."""
        self.open_after(self.disk.crash(Random(seed)), self.durable)

    @rule(
        topic=topics, turns=st.integers(0, 15), end=st.sampled_from(["", "kill", "cut"]),
        seed=st.integers(0, 99),
    )  # fmt: skip
    def delete_topic(self, topic, turns, end, seed):
        """Delete a topic during puts, possibly with a crash: all of its messages go, or none."""
        old = {key: queue for key, queue in self.queues.items() if key[0] == topic}
        self.queues.update((key, []) for key in old)
        self.firsts = {key: first for key, first in self.firsts.items() if key[0] != topic}
        promised = len(self.log)
        image = self.loop.run_until_complete(self._delete(topic, turns, end, Random(seed)))
        if not end:
            self.durable = promised
        elif end == "kill":
            self.open_after(image, len(self.log), old)
        else:
            self.open_after(image, self.durable, old)

    async def _delete(self, topic, turns, end, chance):
        deletion = asyncio.ensure_future(self.store.delete_topic(topic))
        for turn in range(turns):
            await asyncio.sleep(0)
            one = message(b"%d" % turn, chance.choice([topic, "U"]), chance.randrange(3))
            with suppress(BeingDeleted):
                self.remember(self.store.put(one, self.now_ms), one)
        image = self.disk.kill() if end == "kill" else self.disk.crash(chance) if end else None
        await deletion
        return image

    def open_after(self, image, promised, deleted=None):
        self.loop.run_until_complete(self.store.abandon())
        self.disk = image
        self.open()
        dropped_to, self.start = self.start, self.store.log_bounds[0]
        assert self.deleted_to <= self.start <= dropped_to
        assert self.store.recovered.bad == ()
        end = self.store.log_bounds[1]
        lost = [item for item in self.log if item[0].end > end]
        self.come_back(deleted or {}, lost)
        assert len(self.log) - len(lost) >= promised
        for item in reversed(lost):
            assert self.log.pop() is item, "only the newest messages are lost"
            assert self.queues[item[1].topic, item[1].queue_id].pop() is item
        self.durable = len(self.log)
        self.find_firsts(dropped_to)
        self.everything()

    def find_firsts(self, dropped_to):
        """Find the first units after a crash: those of reappearing log files may be missing."""
        before, self.firsts = self.firsts, {}
        for key, queue in self.queues.items():
            latest = sum(item[0].physical_offset < dropped_to for item in queue)
            latest = max(latest, before.get(key, 0))
            first = self.store.bounds(*key)[0]
            assert self.first_of(key) <= first <= latest
            self.firsts[key] = first

    def come_back(self, deleted, lost):
        """Restore the messages of an interrupted deletion that did not take effect."""
        are_lost = {id(item) for item in lost}
        if any(
            self.store.bounds(*key)[1] > len(self.queues[key])
            or any(id(item) in are_lost for item in queue)
            for key, queue in deleted.items()
        ):
            assert not any(self.queues[key] for key in deleted)
            self.queues.update(deleted)

    def everything(self):
        self.what_is_gone()
        for (topic, queue_id), queue in self.queues.items():
            first = self.first_of((topic, queue_id))
            self.agree(read_kept(self.store, topic, queue_id), queue[first:])

    @invariant()
    def bounds(self):
        if hasattr(self, "store"):
            for (topic, queue_id), queue in self.queues.items():
                first = self.first_of((topic, queue_id))
                assert self.store.bounds(topic, queue_id) == (first, len(queue))
            if self.log:
                assert self.store.log_bounds[1] >= self.log[-1][0].end


def read_kept(store, topic, queue_id):
    offset, end = store.bounds(topic, queue_id)
    while offset < end:
        found = store.get(topic, queue_id, offset, 32)
        yield from records(found)
        assert found.next_offset > offset
        offset = found.next_offset


def nearest(times, wanted_ms):
    after = bisect_left(times, wanted_ms)
    if after in (0, len(times)):
        return max(0, after - 1)
    before = after - 1
    return after if wanted_ms - times[before] > times[after] - wanted_ms else before


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
