"""Unique keys: of Java's form, never twice, not even in a forked child."""

import os
import threading
import time
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.client.unique_id import UniqueKeys, month_around
from cometmq.errors import BadSetting
from cometmq.protocol.records.message_id import UniqueKey
from cometmq.seams import RealClock
from cometmq.testing.clock import ManualClock

LOCAL = bytes([10, 1, 2, 3])
ZONES = ["UTC", "Asia/Shanghai", "America/New_York", "Pacific/Apia"]


@pytest.fixture(params=ZONES)
def zone(request, monkeypatch):
    with monkeypatch.context() as changed:
        changed.setenv("TZ", request.param)
        time.tzset()
        yield request.param
    time.tzset()


def test_parts_of_a_key():
    clock = ManualClock()
    keys = UniqueKeys(LOCAL, clock)
    first, second = UniqueKey.parse(keys()), UniqueKey.parse(keys())
    assert first.ip == LOCAL
    assert first.pid == os.getpid() & 0xFFFF
    assert month_around(clock.wall_ms())[0] + first.since_month_start_ms == clock.wall_ms()
    assert (first.counter, second.counter) == (0, 1)
    assert first.loader_hash == second.loader_hash


def test_ipv6_has_56_digits():
    assert len(UniqueKeys(LOCAL, ManualClock())()) == 32
    assert len(UniqueKeys(bytes(16), ManualClock())()) == 56
    with pytest.raises(BadSetting, match="not 5"):
        UniqueKeys(bytes(5), ManualClock())


@pytest.mark.parametrize("count", [1, 2, 1023, 1024, 1025, 5000])
def test_many_at_once_are_as_one_after_the_other(count):
    clock = ManualClock()
    keys = UniqueKeys(LOCAL, clock)
    found = [UniqueKey.parse(key) for key in keys.many(count)]
    assert [key.counter for key in found] == list(range(count))
    assert len({(key.loader_hash, key.since_month_start_ms) for key in found}) == 1
    assert UniqueKey.parse(keys()).counter == count


def test_a_millisecond_has_65536_keys_and_threads_share_them():
    keys = UniqueKeys(LOCAL, ManualClock())
    found = []

    def make():
        found.append([keys() for _ in range(16_384)])

    threads = [threading.Thread(target=make) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({key for part in found for key in part}) == 65_536
    assert UniqueKey.parse(keys()).counter == 0


@given(st.lists(st.integers(0, 40 * 86_400_000), min_size=1, max_size=30))
def test_keys_differ_while_the_clock_moves(steps_ms):
    clock = ManualClock()
    keys = UniqueKeys(LOCAL, clock)
    found = []
    for step_ms in steps_ms:
        clock.jump(step_ms)
        found += [keys(), keys()]
    assert len(set(found)) == len(found)


def test_a_forked_child_makes_keys_of_its_own():
    keys = UniqueKeys(LOCAL, ManualClock())
    keys()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, keys().encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        childs = UniqueKey.parse(pipe.read())
    assert os.waitpid(child, 0)[1] == 0
    ours = UniqueKey.parse(keys())
    assert childs.pid == child & 0xFFFF
    assert childs.loader_hash != ours.loader_hash
    assert (childs.counter, ours.counter) == (0, 1)


def test_two_makers_of_one_process_differ():
    clock = ManualClock()
    assert UniqueKeys(LOCAL, clock)() != UniqueKeys(LOCAL, clock)()


@pytest.mark.parametrize("moment_ms", [1_700_000_000_000, 1_711_850_000_000, 1_735_689_599_999])
def test_month_of_local_time(zone, moment_ms):
    start_ms, end_ms = month_around(moment_ms)
    assert start_ms <= moment_ms < end_ms
    start, end = (datetime.fromtimestamp(ms / 1000) for ms in (start_ms, end_ms))
    for edge in (start, end):
        assert (edge.day, edge.hour, edge.minute, edge.second) == (1, 0, 0, 0)
    assert (end.year - start.year) * 12 + end.month - start.month == 1


def test_december_is_followed_by_january(zone):
    december = int(datetime(2026, 12, 15, tzinfo=UTC).timestamp() * 1000)
    end = datetime.fromtimestamp(month_around(december)[1] / 1000)
    assert (end.year, end.month, end.day) == (2027, 1, 1)


def test_time_begins_again_with_each_month():
    clock = ManualClock()
    keys = UniqueKeys(LOCAL, clock)
    end_ms = month_around(clock.wall_ms())[1]
    clock.jump(end_ms - 1 - clock.wall_ms())
    last = UniqueKey.parse(keys())
    clock.jump(1)
    first = UniqueKey.parse(keys())
    assert last.since_month_start_ms > 27 * 86_400_000
    assert first.since_month_start_ms == 0


def test_a_clock_set_back_over_the_month_start():
    clock = ManualClock()
    start_ms = month_around(clock.wall_ms())[0]
    keys = UniqueKeys(LOCAL, clock)
    clock.jump(start_ms - 999_999 - clock.wall_ms())
    assert UniqueKey.parse(keys()).since_month_start_ms == 0
    clock.jump(-1)
    assert UniqueKey.parse(keys()).since_month_start_ms == 2**32 - 1_000_000


def test_the_real_clock():
    assert UniqueKeys(LOCAL, RealClock())().startswith("0A010203")
