"""Queue offsets by time."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from searches import examples
from store.rig import message, open_store


def with_times(folder, times, ask):
    async def story():
        async with open_store(folder) as store:
            for stored_ms in times:
                store.put(message(b"x"), stored_ms)
            return ask(store)

    return asyncio.run(story())


@pytest.mark.parametrize(
    ("wanted_ms", "offset"),
    [(0, 0), (100, 0), (149, 0), (150, 0), (151, 1), (200, 1), (260, 2), (300, 2), (9999, 2)],
)
def test_the_nearest_message_the_earlier_of_two(tmp_path, wanted_ms, offset):
    found = with_times(tmp_path, [100, 200, 300], lambda s: s.offset_by_time("T", 0, wanted_ms))
    assert found == offset


def test_an_empty_queue(tmp_path):
    def ask(store):
        return store.offset_by_time("T", 7, 5), store.earliest_ms("T", 7)

    assert with_times(tmp_path, [], ask) == (0, -1)


def test_the_oldest_message(tmp_path):
    assert with_times(tmp_path, [100, 200], lambda s: s.earliest_ms("T", 0)) == 100


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.integers(0, 60))
def test_as_a_search_of_all_would_find_it(tmp_path_factory, times, wanted_ms):
    times = sorted(times)
    found = with_times(
        tmp_path_factory.mktemp("s"), times, lambda s: s.offset_by_time("T", 0, wanted_ms)
    )
    nearest = min(abs(one - wanted_ms) for one in times)
    assert abs(times[found] - wanted_ms) == nearest
