"""SQL conditions of groups: since when their bits count, how long they live, how they are kept."""

import asyncio
import json
from pathlib import Path

import pytest

from broker.whole import consumer_beat
from cometmq.broker.filtering.consumer_filters import TRIED_MAX, ConsumerFilters
from cometmq.broker.tables.clients import Client, Clients
from cometmq.protocol.filter.bloom import BloomFilter
from cometmq.protocol.filter.tags import subscription_of
from cometmq.protocol.records.properties import encode_properties
from cometmq.store.queue.extended_queue import ExtendedCode
from cometmq.testing.clock import ManualClock
from crash.shadow_disk import ShadowDisk

PATH = Path("/store/config/consumerFilter.json")
DAY_MS = 86_400_000
RED = encode_properties({"colour": "red"})
BLUE = encode_properties({"colour": "blue"})

# As a broker of the original wrote it.
WRITTEN = """{
	"filterDataByTopic":{
		"Extended":{
			"groupFilterData":{
				"g_red":{
					"bloomFilterData":{
						"bitNum":112,
						"bitPos":[10,83,65]
					},
					"bornTime":1794804058605,
					"clientVersion":1794804058828,
					"consumerGroup":"g_red",
					"dead":false,
					"deadTime":0,
					"expression":"colour = 'red'",
					"expressionType":"SQL92",
					"topic":"Extended"
				}
			},
			"topic":"Extended"
		}
	}
}"""  # fmt: skip
BORN_MS = 1794804058605


class Scene:
    def __init__(self, disk=None, clock=None, bloom=None):
        self.disk, self.clock = disk or ShadowDisk(), clock or ManualClock()
        self.filters = ConsumerFilters(self.disk, PATH, self.clock, bloom or BloomFilter(20, 32))
        self.code = self.filters.extended(lambda topic, text, tag_code, stored_ms: tag_code)

    def put(self, text, topic="T", stored_ms=None):
        stored_ms = self.clock.wall_ms() if stored_ms is None else stored_ms
        return self.code(topic, text, 5, stored_ms)

    def pulls(self, expression="colour = 'red'", group="G", topic="T", version=1):
        subscription = subscription_of(topic, expression, "SQL92", version=version)
        return self.filters.followed(group, subscription)

    def later(self, by_ms=1):
        self.clock.jump(by_ms)

    def saved(self):
        asyncio.run(self.filters.file.save())
        return json.loads(self.disk.read(PATH))

    def reopened(self, bloom=None, after_crash=False):
        again = Scene(self.disk, self.clock, bloom)
        again.filters.load(after_crash=after_crash)
        return again


def test_a_message_has_bits_of_those_who_want_it():
    it = Scene()
    assert it.put(RED) == 5
    assert it.put(RED).bits == b"", "nobody's condition was tried"
    red, blue = it.pulls(), it.pulls("colour = 'blue'", "H")
    it.later()
    first, second = it.put(RED), it.put(BLUE)
    assert len(first.bits) * 8 == 112
    assert [red.may_want(code) for code in (first, second)] == [True, False]
    assert [blue.may_want(code) for code in (first, second)] == [False, True]
    assert it.put(RED, "U").bits == b""


def test_what_is_not_newer_than_the_condition_cannot_be_judged():
    it = Scene()
    it.pulls("colour = 'green'", "other")
    it.later()
    before = it.put(BLUE)
    it.later()
    at_once = it.put(BLUE)
    red = it.pulls()
    assert red.may_want(before)
    assert red.may_want(at_once), "of the same millisecond"
    it.later()
    assert not red.may_want(it.put(BLUE))


@pytest.mark.parametrize("bits", [b"", bytes(13), bytes(15)])
def test_bits_of_another_size_say_nothing(bits):
    it = Scene()
    red = it.pulls()
    assert red.may_want(ExtendedCode(5, it.clock.wall_ms() + 1, bits))
    assert red.may_want(5)


def test_another_condition_is_born_anew_and_the_old_one_judges_no_more():
    it = Scene()
    red = it.pulls()
    it.later()
    code = it.put(BLUE)
    assert not red.may_want(code)
    it.later()
    blue = it.pulls("colour = 'blue'", version=2)
    assert blue is not red
    assert blue.may_want(code)
    it.later()
    assert red.may_want(it.put(RED)), "its bits are of the new condition"
    assert not blue.may_want(it.put(RED))
    assert it.pulls("colour = 'blue'", version=3) is blue


def test_a_clock_that_is_set_back_makes_no_condition_older_than_a_message():
    it = Scene()
    it.pulls("colour = 'green'", "other")
    it.later()
    code = it.put(RED)
    it.later(-10_000)
    assert it.pulls().may_want(code)


def test_no_more_are_tried_than_a_put_can_bear():
    it = Scene()
    first = it.pulls(group="0")
    for number in range(1, TRIED_MAX):
        assert it.pulls(group=str(number)) is not None
    assert it.pulls(group="one more") is None
    assert it.pulls(group="0") is first
    assert it.pulls("colour = 'blue'", group="0") is not None
    assert it.pulls(group="one more", topic="U") is not None


def heard(clients, link, group, *wanted):
    clients.heard(consumer_beat(group, *wanted), Client(link, "c1", "JAVA", 1, 0, 0))


def test_who_leaves_is_dead_tried_on_and_forgotten_after_its_time():
    it, clients = Scene(), Clients()
    heard(clients, "link", "G", ("T", "colour = 'red'", "SQL92"))
    red = it.pulls()
    it.later()
    it.filters.look_after(clients, DAY_MS)
    assert red.dead_ms == 0
    clients.drop("link")
    it.filters.look_after(clients, DAY_MS)
    assert red.dead_ms == it.clock.wall_ms()
    it.later(DAY_MS - 1)
    it.filters.look_after(clients, DAY_MS)
    assert not red.may_want(it.put(BLUE)), "it is tried on"
    assert it.pulls() is red
    assert red.dead_ms == 0, "it is back"

    it.filters.look_after(clients, DAY_MS)
    it.later(DAY_MS)
    it.filters.look_after(clients, DAY_MS)
    assert it.filters.body.filter_data_by_topic == {}
    assert it.pulls() is not red


def test_a_topic_that_is_not_subscribed_to_any_more_is_dead():
    it, clients = Scene(), Clients()
    heard(clients, "link", "G", ("T", "colour = 'red'", "SQL92"), ("U", "*"))
    red = it.pulls()
    heard(clients, "link", "G", ("U", "*"))
    it.filters.look_after(clients, DAY_MS)
    assert red.dead_ms > 0


def test_the_file_is_as_the_original_has_it():
    it = Scene(clock=ManualClock(BORN_MS))
    it.pulls(group="g_red", topic="Extended", version=1794804058828)
    assert it.saved() == json.loads(WRITTEN)


def test_the_original_s_file_is_read():
    it = Scene(clock=ManualClock(BORN_MS + 5000))
    it.disk.replace(PATH, WRITTEN.encode())
    it = it.reopened()
    code = it.put(BLUE, "Extended")
    found = it.pulls(group="g_red", topic="Extended", version=1794804058828)
    assert found.born_ms == BORN_MS
    assert not found.may_want(code)
    assert it.saved() == json.loads(WRITTEN), "it lives again"


def test_all_are_dead_until_they_pull():
    it = Scene()
    it.pulls()
    it.saved()
    it.later(1000)
    entry = it.reopened().filters.body.filter_data_by_topic["T"].group_filter_data["G"]
    assert (entry.dead, entry.dead_time) == (True, it.clock.wall_ms())


def test_after_a_crash_bits_from_before_it_say_nothing():
    it = Scene()
    it.pulls()
    it.saved()
    it.later()
    it.pulls("colour = 'blue'", version=2)  # not in the file yet
    it.later()
    code = it.put(RED)
    it = it.reopened(after_crash=True)
    assert it.pulls().may_want(code)
    it.later()
    assert not it.pulls().may_want(it.put(BLUE))


def test_a_filter_of_another_size_keeps_nothing():
    it = Scene()
    it.pulls()
    it.saved()
    assert it.reopened(BloomFilter(20, 64)).filters.body.filter_data_by_topic == {}
    assert it.reopened(BloomFilter(1, 32)).filters.body.filter_data_by_topic == {}


def test_a_condition_that_cannot_be_read_is_left_out(caplog):
    it = Scene()
    it.disk.replace(PATH, WRITTEN.replace("colour = 'red'", "colour = = 'red'").encode())
    assert it.reopened().filters.body.filter_data_by_topic == {}
    assert "g_red" in caplog.text
