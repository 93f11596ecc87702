"""Locks of ordered consumption, beside a model: a queue never has two holders."""

import asyncio
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from cometmq.broker.tables.queue_locks import EXPIRES_MS, QueueLockTable
from cometmq.protocol.bodies.queues import MessageQueue
from crash.shadow_disk import ShadowDisk

QUEUES = [MessageQueue("T", "broker-a", queue_id) for queue_id in range(3)]
GROUPS = st.sampled_from(["G", "H"])
CLIENTS = st.sampled_from(["a", "b", "c"])
PATH = Path("/store/config/queueLocks.json")
SOME = st.lists(st.sampled_from(QUEUES), max_size=4)


def make_locks(disk=None):
    return QueueLockTable(disk or ShadowDisk(), PATH)


class LocksBesideAModel(RuleBasedStateMachine):
    """The model: group and queue to holder and when its hold ends."""

    @initialize()
    def begin(self):
        self.locks, self.model, self.now_ms = make_locks(), {}, 1_000

    @rule(group=GROUPS, client=CLIENTS, queues=SOME)
    def lock(self, group, client, queues):
        held = self.locks.lock(group, queues, client, self.now_ms)
        wanted = []
        for queue in queues:
            holder, until_ms = self.model.get((group, queue), (client, 0))
            if holder == client or until_ms <= self.now_ms:
                self.model[group, queue] = client, self.now_ms + EXPIRES_MS
                wanted.append(queue)
        assert held == wanted

    @rule(group=GROUPS, client=CLIENTS, queues=SOME)
    def unlock(self, group, client, queues):
        self.locks.unlock(group, queues, client)
        for queue in queues:
            if self.model.get((group, queue), ("", 0))[0] == client:
                del self.model[group, queue]

    @rule(ms=st.sampled_from([1, 20_000, EXPIRES_MS - 1, EXPIRES_MS, EXPIRES_MS + 1]))
    def pass_time(self, ms):
        self.now_ms += ms

    @rule()
    def forget_expired(self):
        self.locks.forget_expired(self.now_ms)
        self.model = {key: hold for key, hold in self.model.items() if hold[1] > self.now_ms}

    @invariant()
    def nothing_is_kept_that_is_not_in_the_model(self):
        found = {
            (group, queue): (hold.client_id, hold.until_ms)
            for group, holds in self.locks._holds.items()
            for queue, hold in holds.items()
        }
        assert found == self.model


TestLocksBesideAModel = LocksBesideAModel.TestCase


def test_a_gone_holder_is_followed_after_a_minute():
    locks = make_locks()
    assert locks.lock("G", QUEUES, "a", 0) == QUEUES
    assert locks.lock("G", QUEUES, "b", EXPIRES_MS - 1) == []
    assert locks.lock("G", QUEUES, "b", EXPIRES_MS) == QUEUES
    assert locks.lock("G", QUEUES, "a", EXPIRES_MS + 1) == []


def test_groups_that_are_gone_cost_nothing():
    locks = make_locks()
    locks.lock("G", QUEUES, "a", 0)
    locks.forget_expired(EXPIRES_MS)
    assert locks._holds == {}


@given(
    asked=st.lists(st.tuples(GROUPS, CLIENTS, SOME), max_size=8),
    later=st.lists(st.tuples(GROUPS, CLIENTS, SOME), max_size=8),
)
def test_a_restart_counts_as_a_request_of_every_holder(asked, later):
    async def story():
        disk, now_ms = ShadowDisk(), 5_000
        before = make_locks(disk)
        for group, client, queues in asked:
            before.lock(group, queues, client, 1_000)
        await before.file.save()
        after = make_locks(disk.kill())
        after.load(now_ms)
        for group, client, _ in asked:  # each holder again: its holds now last as long
            before.lock(group, before.body.lock_table[group].get(client, []), client, now_ms)
        for group, client, queues in later:
            expected = before.lock(group, queues, client, now_ms)
            assert after.lock(group, queues, client, now_ms) == expected
        assert after.lock("G", QUEUES, "new", now_ms + EXPIRES_MS) == QUEUES

    asyncio.run(story())


def test_renewals_are_not_written():
    locks = make_locks()
    locks.lock("G", QUEUES, "a", 0)
    asyncio.run(locks.file.save())
    locks.lock("G", QUEUES, "a", 1)
    locks.lock("G", QUEUES, "b", 1)
    assert locks.file.is_saved


def test_a_damaged_file_with_a_damaged_backup_is_set_aside(caplog):
    async def story():
        disk = ShadowDisk()
        backup = PATH.with_name("queueLocks.json.bak")
        for path in (PATH, backup):
            disk.replace(path, b"damaged")
        locks = make_locks(disk)
        locks.load(1_000)
        assert locks.lock("G", QUEUES, "a", 1_000) == QUEUES, "no queue is held"
        assert "queueLocks.json is damaged" in caplog.text
        assert disk.read(PATH.with_name("queueLocks.json.damaged")) == b"damaged"
        assert disk.read(PATH.with_name("queueLocks.json.bak.damaged")) == b"damaged"
        await locks.file.save()
        after = make_locks(disk)
        after.load(2_000)
        assert after.lock("G", QUEUES, "b", 2_000) == [], "the new file is read"

    asyncio.run(story())
