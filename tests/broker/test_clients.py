"""Who is connected, beside a model: members come by heartbeats, and go by leave or loss."""

import logging

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from broker.desk import FakeLink
from broker.whole import consumer_beat
from cometmq.broker.tables.clients import SILENCE_MS_MAX, Client, Clients
from cometmq.protocol.bodies.heartbeat import ConsumeFrom, Heartbeat, MessageModel, ProducerData

LINKS = [FakeLink(port) for port in range(1, 4)]
SOME_LINK = st.integers(0, len(LINKS) - 1)
SOME_GROUP = st.sampled_from(["A", "B"])


def client(link, client_id="c", heard_ms=0):
    return Client(link, client_id, "JAVA", 407, heard_ms, heard_ms)


def producer_beat(*groups, client_id="p"):
    data = [ProducerData(group_name=group) for group in groups]
    return Heartbeat(client_id=client_id, producer_data_set=data)


class ClientsBesideAModel(RuleBasedStateMachine):
    """The model: which link is in which group, and when it was heard."""

    @initialize()
    def begin(self):
        self.clients, self.now_ms = Clients(), 0
        self.produces, self.consumes, self.heard = set(), set(), {}

    def _heard(self, beat, number):
        link = LINKS[number]
        self.heard[number] = self.now_ms
        return self.clients.heard(beat, client(link, f"c{number}", self.now_ms))

    @rule(number=SOME_LINK, group=SOME_GROUP)
    def produce(self, number, group):
        assert self._heard(producer_beat(group), number) == []
        self.produces.add((number, group))
        self._all_heard(number)

    @rule(number=SOME_LINK, group=SOME_GROUP)
    def consume(self, number, group):
        changed = self._heard(consumer_beat(group), number)
        assert changed == ([] if (number, group) in self.consumes else [group])
        self.consumes.add((number, group))
        self._all_heard(number)

    def _all_heard(self, number):
        """A client names all its groups in each heartbeat; so does the model's."""
        for own, group in self.produces:
            if own == number:
                self._heard(producer_beat(group), number)
        for own, group in self.consumes:
            if own == number:
                self._heard(consumer_beat(group), number)

    @rule(number=SOME_LINK, group=SOME_GROUP)
    def leave(self, number, group):
        changed = self.clients.leave(LINKS[number], group, group)
        assert changed == ([group] if (number, group) in self.consumes else [])
        self.produces.discard((number, group))
        self.consumes.discard((number, group))

    @rule(number=SOME_LINK)
    def drop(self, number):
        changed = self.clients.drop(LINKS[number])
        assert sorted(changed) == sorted(g for own, g in self.consumes if own == number)
        self.produces = {each for each in self.produces if each[0] != number}
        self.consumes = {each for each in self.consumes if each[0] != number}
        self.heard.pop(number, None)

    @rule(ms=st.sampled_from([1, 60_000, SILENCE_MS_MAX, SILENCE_MS_MAX + 1]))
    def pass_time(self, ms):
        self.now_ms += ms

    @invariant()
    def both_agree(self):
        for group in ("A", "B"):
            produces = {LINKS[own] for own, name in self.produces if name == group}
            consumes = {LINKS[own] for own, name in self.consumes if name == group}
            assert set(self.clients.producer_links(group)) == produces
            assert set(self.clients.links_of(group)) == consumes
            assert (group in self.clients.consumers) == bool(consumes)
            assert (group in self.clients.producers) == bool(produces)
        members = {own for own, _ in self.produces | self.consumes}
        silent = {LINKS[own] for own in members if self.now_ms - self.heard[own] > SILENCE_MS_MAX}
        assert set(self.clients.silent(self.now_ms)) == silent


TestClientsBesideAModel = ClientsBesideAModel.TestCase


def test_the_last_heartbeat_decides_what_the_group_wants():
    clients = Clients()
    first, second = LINKS[:2]
    clients.heard(consumer_beat("G", ("T", "a"), version=1), client(first, "c1"))
    group = clients.consumers["G"]
    assert clients.heard(consumer_beat("G", ("T", "b"), version=2), client(first, "c1")) == []
    assert group.subscriptions["T"].sub_string == "b"
    # An older version of the same subscription is not taken back.
    clients.heard(consumer_beat("G", ("T", "a"), version=1), client(first, "c1"))
    assert group.subscriptions["T"].sub_string == "b"
    # Another topic takes the place of the one that is not named any more.
    changed = clients.heard(
        consumer_beat(
            "G", ("U", "*"), message_model=MessageModel.BROADCASTING,
            consume_from_where=ConsumeFrom.FIRST_OFFSET,
        ),
        client(second, "c2"),
    )  # fmt: skip
    assert changed == ["G"]
    assert list(group.subscriptions) == ["U"]
    assert group.message_model is MessageModel.BROADCASTING
    assert group.consume_from is ConsumeFrom.FIRST_OFFSET


def test_differing_members_are_logged_once_and_shown_until_they_agree(caplog):
    clients = Clients()
    first, second = LINKS[:2]
    clients.heard(consumer_beat("G", ("T", "a")), client(first, "c1"))
    group = clients.consumers["G"]
    assert group.agrees
    for _ in range(3):
        clients.heard(consumer_beat("G", ("T", "b")), client(second, "c2"))
    assert not group.agrees
    assert caplog.text.count("subscribe differently") == 1
    assert "c2" in caplog.text
    clients.leave(second, None, "G")
    assert group.agrees


def test_a_connection_that_changes_its_id_leaves_nothing_of_the_old_one():
    clients = Clients()
    for number in range(1_000):
        clients.heard(consumer_beat("G", ("T", str(number))), client(LINKS[0], f"c{number}"))
    group = clients.consumers["G"]
    assert list(group.said) == ["c999"]
    assert group.agrees
    # An id that another connection has too is not gone with this one.
    clients.heard(consumer_beat("G", ("T", "a")), client(LINKS[1], "c999"))
    clients.heard(consumer_beat("G", ("T", "a")), client(LINKS[0], "other"))
    assert sorted(group.said) == ["c999", "other"]


def test_where_members_differ():
    clients = Clients()
    clients.heard(consumer_beat("G", ("T", "a"), ("U", "*")), client(LINKS[0], "c1"))
    group = clients.consumers["G"]
    assert group.differences == {}
    sql = ("T", "a > 1", "SQL92")
    clients.heard(consumer_beat("G", sql, ("U", "*"), ("V", "*")), client(LINKS[1], "c2"))
    assert group.differences == {"T": {"c1": "a", "c2": "SQL92: a > 1"}, "V": {"c1": "", "c2": "*"}}


def test_a_client_is_found_by_its_id():
    clients = Clients()
    clients.heard(consumer_beat("G"), client(LINKS[0], "c1"))
    clients.heard(producer_beat("P"), client(LINKS[1], "p1"))
    assert clients.member("G", "c1").link is LINKS[0]
    assert clients.link_of_client("p1") is LINKS[1]
    for group, client_id in (("G", "p1"), ("Nobody", "c1")):
        assert clients.member(group, client_id) is None
    assert clients.link_of_client("c1") is None


@pytest.mark.parametrize("group", ["G", None, ""])
def test_unregistering_an_unknown_client_is_harmless(group):
    clients = Clients()
    clients.heard(consumer_beat("G"), client(LINKS[0], "c1"))
    assert clients.leave(LINKS[1], group, group) == []
    assert clients.drop(LINKS[1]) == []
    assert clients.links_of("G") == [LINKS[0]]


def test_members_that_join_and_leave_are_logged_once(caplog):
    caplog.set_level(logging.INFO)
    clients = Clients()
    first, second = LINKS[:2]
    for _ in range(2):
        clients.heard(consumer_beat("G", ("T", "a")), client(first, "c1"))
        clients.heard(producer_beat("P"), client(second, "p1"))
    clients.leave(first, None, "G")
    clients.drop(second)
    events = [(each.msg.text, each.msg.fields) for each in caplog.records]
    assert events == [
        ("consumer joined", {"group": "G", "client_id": "c1", "members": 1}),
        ("producer joined", {"group": "P", "client_id": "p1", "members": 1}),
        ("consumer left", {"group": "G", "client_id": "c1", "members": 0}),
        ("producer left", {"group": "P", "client_id": "p1", "members": 0}),
    ]
