"""Both stores against a model; SQLite with other processes, and one that is killed."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from contextlib import closing

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.client.dedup import stores as dedup_stores
from cometmq.client.dedup.attempt import KeyVerdict
from cometmq.client.dedup.stores import MemoryStore, SqliteStore
from cometmq.errors import BadSetting, BadState, TimedOut
from cometmq.testing.clock import ManualClock
from searches import examples

LEASE_MS, RETENTION_MS = 100, 1000
CHILD = """
import json, sys
from cometmq.client.dedup.stores import SqliteStore
from cometmq.seams import RealClock
store = SqliteStore(sys.argv[1], RealClock())
print("ready", flush=True)
sys.stdin.readline()
"""
TAKE_ALL = "got = [n for n in range(60) if store.begin(str(n), 'c', 60_000).value == 'run']\n"
STOP_BETWEEN = "store.begin('one', 'child', 60_000); print('begun', flush=True); sys.stdin.read()\n"


@pytest.fixture(params=["memory", "sqlite"])
def made(request, tmp_path):
    """A clock, and a maker of stores."""

    def make(clock, most=1000):
        if request.param == "memory":
            return MemoryStore(clock, most)
        return SqliteStore(tmp_path / "dedup.db", clock, most)

    return make


def child(path, program):
    return subprocess.Popen(
        [sys.executable, "-c", CHILD + program, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


operations = st.lists(
    st.tuples(
        st.sampled_from(["begin", "begin", "done", "release", "pass"]),
        st.sampled_from("abc"),
        st.sampled_from(["one", "two"]),
        st.sampled_from([1, 50, 100, 1000]),
    ),
    min_size=4,
    max_size=40,
)


@pytest.mark.parametrize("kind", [MemoryStore, lambda clock: SqliteStore(":memory:", clock)])
@settings(max_examples=examples(200))
@given(operations)
def test_both_are_as_the_model(kind, steps):
    clock = ManualClock(1_000_000)
    store = kind(clock)
    model = {}  # key to owner, None for done, and the end
    for verb, key, owner, passed_ms in steps:
        now_ms = clock.monotonic_ms()
        had, until_ms = model.get(key, ("", 0))
        if verb == "pass":
            clock._monotonic_ms += passed_ms
        elif verb == "begin":
            expected = KeyVerdict.RUN
            if until_ms > now_ms:
                expected = KeyVerdict.SKIP if had is None else KeyVerdict.LATER
            else:
                model[key] = owner, now_ms + LEASE_MS
            assert store.begin(key, owner, LEASE_MS) is expected
        elif verb == "done":
            store.done(key, RETENTION_MS)
            model[key] = None, now_ms + RETENTION_MS
        else:
            store.release(key, owner)
            if had == owner:
                model.pop(key, None)


def test_threads_get_a_key_once(made):
    store = made(ManualClock())
    start = threading.Barrier(4)
    got = []

    def take(owner):
        start.wait()
        got.extend(n for n in range(40) if store.begin(str(n), owner, 1000) is KeyVerdict.RUN)

    threads = [threading.Thread(target=take, args=(str(n),)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(got) == list(range(40))


def test_only_the_owner_can_release(made):
    store = made(ManualClock())
    store.begin("a", "one", LEASE_MS)
    store.release("a", "two")
    assert store.begin("a", "two", LEASE_MS) is KeyVerdict.LATER
    store.release("a", "one")
    assert store.begin("a", "two", LEASE_MS) is KeyVerdict.RUN


def test_memory_is_bounded():
    clock = ManualClock()
    store = MemoryStore(clock, 3)
    for key in "abc":
        assert store.begin(key, "one", LEASE_MS) is KeyVerdict.RUN
    # All are in progress: none may be forgotten.
    assert store.begin("d", "one", LEASE_MS) is KeyVerdict.LATER
    store.done("a", RETENTION_MS)
    assert store.begin("d", "one", LEASE_MS) is KeyVerdict.RUN
    assert store.begin("b", "two", LEASE_MS) is KeyVerdict.LATER
    assert len(store) == 3
    clock._monotonic_ms += LEASE_MS
    # Leases that have ended make room.
    assert store.begin("e", "one", LEASE_MS) is KeyVerdict.RUN
    assert len(store) == 1


def test_memory_forgets_what_was_done_first():
    store = MemoryStore(ManualClock(), 2)
    for key in ("a", "b", "c"):
        store.done(key, RETENTION_MS)
    assert [store.begin(key, "one", LEASE_MS) for key in "cb"] == [KeyVerdict.SKIP, KeyVerdict.SKIP]
    assert store.begin("a", "one", LEASE_MS) is KeyVerdict.RUN
    assert len(store) == 2


def test_sqlite_is_bounded(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(dedup_stores, "_PURGE_EVERY", 2)  # every other begin
    clock = ManualClock()
    store = SqliteStore(tmp_path / "dedup.db", clock, 3)
    for key in "abcde":
        store.done(key, RETENTION_MS)
        clock.jump(1)
    assert store.begin("in progress", "one", RETENTION_MS) is KeyVerdict.RUN
    assert "the oldest are deleted" in caplog.text
    assert store.begin("e", "one", LEASE_MS) is KeyVerdict.SKIP
    assert store.begin("a", "one", LEASE_MS) is KeyVerdict.RUN
    clock.jump(10 * RETENTION_MS)
    store.begin("x", "one", LEASE_MS)
    store.begin("y", "one", LEASE_MS)
    rows = store._connection.execute("SELECT key FROM dedup").fetchall()
    assert {key for (key,) in rows} <= {"x", "y"}
    store.close()


@pytest.mark.parametrize("make", [MemoryStore, lambda clock, most: SqliteStore("x", clock, most)])
def test_a_store_holds_something(make):
    with pytest.raises(BadSetting, match="from 1 to"):
        make(ManualClock(), 0)


def test_what_is_done_is_done_after_a_restart(tmp_path):
    clock = ManualClock()
    store = SqliteStore(tmp_path / "dedup.db", clock)
    store.begin("one", "me", LEASE_MS)
    store.done("one", RETENTION_MS)
    store.begin("two", "me", LEASE_MS)
    store.close()
    again = SqliteStore(tmp_path / "dedup.db", clock)
    assert again.begin("one", "me", LEASE_MS) is KeyVerdict.SKIP
    assert again.begin("two", "me", LEASE_MS) is KeyVerdict.LATER
    again.close()


def test_processes_get_a_key_once(tmp_path):
    path = tmp_path / "dedup.db"
    children = [child(path, TAKE_ALL + "print(json.dumps(got))") for _ in range(2)]
    for each in children:
        assert each.stdout.readline() == "ready\n"
    outputs = []
    for each in children:
        each.stdin.write("go\n")
        each.stdin.flush()
    for each in children:
        outputs.append(json.loads(each.communicate()[0]))
        assert each.returncode == 0
    assert sorted(outputs[0] + outputs[1]) == list(range(60))


def test_killed_between_the_phases_the_key_is_free_after_the_lease(tmp_path):
    path = tmp_path / "dedup.db"
    worker = child(path, STOP_BETWEEN)
    worker.stdin.write("go\n")
    worker.stdin.flush()
    assert [worker.stdout.readline() for _ in range(2)] == ["ready\n", "begun\n"]
    worker.send_signal(signal.SIGKILL)
    worker.communicate()
    clock = ManualClock(time.time_ns() // 1_000_000)
    store = SqliteStore(path, clock)
    assert store.begin("one", "heir", 60_000) is KeyVerdict.LATER
    clock.jump(60_000)
    assert store.begin("one", "heir", 60_000) is KeyVerdict.RUN
    store.done("one", RETENTION_MS)
    assert store.begin("one", "third", 60_000) is KeyVerdict.SKIP
    store.close()


def test_a_forked_child_has_a_connection_of_its_own(tmp_path):
    store = SqliteStore(tmp_path / "dedup.db", ManualClock())
    store.begin("one", "parent", LEASE_MS)
    worker = os.fork()
    if worker == 0:
        # Held by the parent's thread at the time of the fork, for all that the child knows.
        store._lock.acquire()
        is_good = store.begin("one", "child", LEASE_MS) is KeyVerdict.LATER
        store.done("one", RETENTION_MS)
        os._exit(0 if is_good else 1)
    assert os.waitpid(worker, 0)[1] == 0
    assert store.begin("one", "parent", LEASE_MS) is KeyVerdict.SKIP
    store.close()


def test_a_file_that_is_no_database(tmp_path):
    (tmp_path / "dedup.db").write_bytes(b"no database" * 100)
    with pytest.raises(BadState, match="cannot be used: file is not a database"):
        SqliteStore(tmp_path / "dedup.db", ManualClock())


def test_a_file_that_another_holds_for_too_long(tmp_path, monkeypatch):
    monkeypatch.setattr(dedup_stores, "_BUSY_S_MAX", 0.01)
    store = SqliteStore(tmp_path / "dedup.db", ManualClock())
    with closing(sqlite3.connect(tmp_path / "dedup.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(TimedOut, match="was locked"):
            store.begin("a", "one", LEASE_MS)
        other.execute("ROLLBACK")
    assert store.begin("a", "one", LEASE_MS) is KeyVerdict.RUN
    store.close()
