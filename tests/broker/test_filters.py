"""The filter of a pull: its own, or what its group said; and what cannot be a filter."""

from pathlib import Path

import msgspec
import pytest

from broker.desk import FakeLink
from broker.whole import BROADCASTING, WITH_SUBSCRIPTION, consumer_beat, pull_header
from cometmq.broker.config import BrokerConfig
from cometmq.broker.filtering.filters import EVERYTHING, Filters
from cometmq.broker.tables.clients import Client, Clients
from cometmq.broker.update_rules import UPDATE_RULES
from cometmq.errors import Refused
from cometmq.protocol.bodies.heartbeat import Subscription
from cometmq.protocol.bodies.tables import GroupConfig
from cometmq.protocol.codes import ResponseCode
from cometmq.protocol.filter.tags import subscription_of
from cometmq.protocol.java.values import hash_code
from cometmq.settings.live_settings import LiveSettings
from crash.shadow_disk import ShadowDisk

GROUP = GroupConfig(group_name="G")
OWN = {"sys_flag": WITH_SUBSCRIPTION}
NEITHER = 0  # no flag: the group's own subscription counts


class Bench:
    """Filters over clients that a test tells of heartbeats."""

    def __init__(self, **config):
        settings = BrokerConfig(broker_name="broker-a", broker_ip1="127.0.0.1", **config)
        live = LiveSettings((settings,), UPDATE_RULES, Path("/b.properties"), ShadowDisk())
        self.clients = Clients()
        self.filters = Filters(self.clients, live)

    def said(self, *wanted, **fields):
        beat = consumer_beat("G", *wanted, **fields)
        self.clients.heard(beat, Client(FakeLink(), "c1", "JAVA", 407, 0, 0))

    def of_pull(self, group=GROUP, **changes):
        return self.filters.of_pull(pull_header(**({"sys_flag": NEITHER} | changes)), group)

    def refusal(self, group=GROUP, **changes):
        with pytest.raises(Refused) as told:
            self.of_pull(group, **changes)
        return told.value.code, str(told.value)


def test_a_pull_with_a_subscription_needs_no_heartbeat():
    bench = Bench()
    pull = {"sys_flag": WITH_SUBSCRIPTION, "sub_version": 99}
    assert bench.of_pull(subscription="*", **pull) is EVERYTHING
    wanted = bench.of_pull(subscription="red || blue", **pull)
    assert wanted.record is None
    assert [wanted.tag(hash_code(tag)) for tag in ("red", "blue", "green")] == [True, True, False]
    code, text = bench.refusal(subscription="||", **pull)
    assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "must contain a tag" in text


@pytest.mark.parametrize("topic", ["T", "%RETRY%G"])
@pytest.mark.parametrize(("kind", "one", "other"), [("TAG", "a", "a||b"), ("SQL92", "a>1", "a>2")])
def test_two_that_want_the_same_are_equal(topic, kind, one, other):
    """So whoever waits can tell whether its group has subscribed anew."""
    bench = Bench(enable_property_filter=True, filter_support_retry=True)
    first = bench.of_pull(topic=topic, subscription=one, expression_type=kind, **OWN)
    again = bench.of_pull(topic=topic, subscription=one, expression_type=kind, **OWN)
    changed = bench.of_pull(topic=topic, subscription=other, expression_type=kind, **OWN)
    assert first == again
    assert (first != changed) == (topic == "T"), "what comes again is asked for as it is read"


def test_what_the_group_said_counts_and_who_said_nothing_is_refused():
    bench = Bench()
    code, text = bench.refusal()
    assert code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    assert "no heartbeat" in text
    bench.said(("T", "red"), version=5)
    assert bench.of_pull(sub_version=5).tag(hash_code("red"))
    assert not bench.of_pull(sub_version=4).tag(hash_code("blue"))
    code, text = bench.refusal(sub_version=6)
    assert code == ResponseCode.SUBSCRIPTION_NOT_LATEST
    code, text = bench.refusal(topic="Other")
    assert code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    assert "Other" in text


def test_a_group_that_may_not_broadcast_is_refused_when_it_does():
    bench = Bench()
    bench.said(message_model=BROADCASTING)
    assert bench.of_pull() is EVERYTHING
    closed = msgspec.structs.replace(GROUP, consume_broadcast_enable=False)
    code, text = bench.refusal(closed)
    assert code == ResponseCode.NO_PERMISSION
    assert "broadcast" in text


def test_sql_is_off_until_it_is_allowed_and_then_reads_properties():
    pull = {
        "sys_flag": WITH_SUBSCRIPTION, "subscription": "a > 5", "expression_type": "SQL92",
    }  # fmt: skip
    code, text = Bench().refusal(**pull)
    assert code == ResponseCode.SYSTEM_ERROR
    assert "enablePropertyFilter" in text
    bench = Bench(enable_property_filter=True)
    assert bench.of_pull(**pull).tag is None
    code, text = bench.refusal(**(pull | {"subscription": "a >"}))
    assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    code, text = bench.refusal(**(pull | {"expression_type": "XPATH"}))
    assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "XPATH" in text


def test_filter_classes_are_declined():
    subscription = Subscription(topic="T", sub_string="C", class_filter_mode=True)
    with pytest.raises(Refused) as told:
        Bench().filters.check(subscription)
    assert told.value.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "filter classes" in str(told.value)


def test_the_cache_of_expressions_is_bounded(monkeypatch):
    monkeypatch.setattr("cometmq.broker.filtering.filters._KEPT_MAX", 5)
    monkeypatch.setattr("cometmq.broker.filtering.expressions._COUNT_MAX", 5)
    bench = Bench(enable_property_filter=True)
    for number in range(50):
        bench.filters.of(subscription_of("T", f"a = {number}", "SQL92"))
        bench.filters.of(subscription_of("T", f"tag{number}"))
    assert len(bench.filters._expressions) <= 5
    assert len(bench.filters._tags) <= 5
