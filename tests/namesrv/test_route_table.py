"""The route table: its rules one by one, then random days against a model that is only lists."""

from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cometmq.namesrv.route_table import Registered, RouteTable
from cometmq.protocol.bodies.register import RegisterBroker
from cometmq.protocol.bodies.tables import DataVersion, TopicConfig, TopicConfigTable
from cometmq.protocol.flags import TopicFlag
from cometmq.protocol.headers.namesrv import BrokerHeader, RegisterBrokerHeader
from searches import examples

EXPIRY_MS = 120_000


def who(name="a", broker_id=0, address=None, cluster="c"):
    return RegisterBrokerHeader(
        broker_name=name,
        broker_addr=address or f"{name}:{broker_id}",
        cluster_name=cluster,
        ha_server_addr=f"{name}:{broker_id}:ha",
        broker_id=broker_id,
    )


def leaving(header):
    return BrokerHeader(
        broker_name=header.broker_name,
        broker_addr=header.broker_addr,
        cluster_name=header.cluster_name,
        broker_id=header.broker_id,
    )


def what(*topics, version=1, filters=None, **config):
    table = {name: TopicConfig(topic_name=name, **config) for name in topics}
    return RegisterBroker(
        filter_server_list=filters,
        topics=TopicConfigTable(
            data_version=DataVersion(counter=version), topic_config_table=table
        ),
    )


@pytest.fixture
def table():
    return RouteTable()


def addresses_of(table, topic):
    route = table.route(topic)
    return None if route is None else {b.broker_name: b.broker_addrs for b in route.broker_datas}


def test_a_slave_gets_the_address_of_its_master(table):
    assert table.register(who(broker_id=1), what(), "l1", 0) == Registered()
    assert table.register(who(), what("T"), "l0", 0) == Registered()
    told = table.register(who(broker_id=1), what(), "l1", 0)
    assert told == Registered(ha_address="a:0:ha", master_address="a:0")


def test_only_a_master_brings_topics(table):
    table.register(who(broker_id=1), what("T"), "l1", 0)
    assert table.route("T") is None


def test_a_slave_that_becomes_master_keeps_one_place(table):
    table.register(who(), what("T"), "old", 0)
    table.register(who(broker_id=1, address="x"), what("T"), "l", 0)
    table.register(who(broker_id=0, address="x"), what("T"), "l", 0)
    assert addresses_of(table, "T") == {"a": {0: "x"}}


def test_topics_are_taken_again_only_when_their_version_changes(table):
    table.register(who(), what("T", read_queue_nums=4), "l", 0)
    table.wipe_write_perm("a")
    table.register(who(), what("T", read_queue_nums=8), "l", 0)
    assert [(q.read_queue_nums, q.perm) for q in table.route("T").queue_datas] == [(4, 4)]
    table.register(who(), what("T", read_queue_nums=8, version=2), "l", 0)
    assert [(q.read_queue_nums, q.perm) for q in table.route("T").queue_datas] == [(8, 6)]


def test_a_master_that_returns_after_its_slave_stayed_brings_its_topics_again(table):
    table.register(who(), what("T"), "l0", 0)
    table.register(who(broker_id=1), what(), "l1", 0)
    table.drop("l0")
    assert addresses_of(table, "T") == {"a": {1: "a:1"}}, "the slave can still be read from"
    table.delete_topic("T")
    table.register(who(), what("T"), "l0", 0)
    assert addresses_of(table, "T") == {"a": {0: "a:0", 1: "a:1"}}


def test_a_late_close_of_an_old_connection_removes_no_node(table):
    table.register(who(), what("T"), "old", 0)
    table.register(who(), what("T"), "new", 0)
    assert table.drop("old") == []
    assert addresses_of(table, "T") == {"a": {0: "a:0"}}
    assert table.drop("new") == ["a:0"]
    assert table.route("T") is None
    assert table.cluster_info().cluster_addr_table == {}


def test_a_late_unregistration_keeps_the_node_that_took_over_the_id(table):
    table.register(who(address="old"), what("T"), "l1", 0)
    table.register(who(address="new"), what("T"), "l2", 0)
    table.unregister(leaving(who(address="old")))
    assert addresses_of(table, "T") == {"a": {0: "new"}}
    table.unregister(leaving(who(address="new")))
    assert table.route("T") is None


def test_silence_longer_than_the_limit_ends_a_broker_and_asking_is_no_silence(table):
    table.register(who("a"), what("T"), "la", 0)
    table.register(who("b"), what("T"), "lb", 0)
    assert table.is_current("a:0", DataVersion(counter=1), EXPIRY_MS)
    assert not table.is_current("b:0", DataVersion(counter=2), EXPIRY_MS), "another version"
    assert table.expire(EXPIRY_MS, EXPIRY_MS) == []
    assert table.expire(EXPIRY_MS + 1, EXPIRY_MS) == [("b:0", "lb")]
    assert addresses_of(table, "T") == {"a": {0: "a:0"}}
    assert table.version_of("b:0") is None


def test_filter_servers_come_and_go_with_their_broker(table):
    table.register(who(), what("T", filters=["f1"]), "l", 0)
    assert table.route("T").filter_server_table == {"a:0": ["f1"]}
    table.register(who(), what("T", filters=None), "l", 0)
    assert table.route("T").filter_server_table == {"a:0": ["f1"]}, "nothing said, nothing changed"
    table.register(who(), what("T", filters=[]), "l", 0)
    assert table.route("T").filter_server_table == {}


def test_deleting_a_topic_in_one_cluster_leaves_the_other(table):
    table.register(who("a", cluster="c1"), what("T"), "la", 0)
    table.register(who("b", cluster="c2"), what("T"), "lb", 0)
    table.delete_topic("T", "nowhere")
    table.delete_topic("T", "c1")
    assert addresses_of(table, "T") == {"b": {0: "b:0"}}
    assert table.topics_of_cluster("c1") == []
    table.delete_topic("T")
    assert table.topics() == []


def test_topics_are_listed_by_their_unit_flags(table):
    table.register(who("a"), what("unit", topic_sys_flag=TopicFlag.UNIT), "l", 0)
    table.register(who("b"), what("sub", topic_sys_flag=TopicFlag.UNIT_SUB), "l", 0)
    both = TopicFlag.UNIT | TopicFlag.UNIT_SUB
    table.register(who("d"), what("both", topic_sys_flag=both), "l", 0)
    table.register(who("e"), what("plain"), "l", 0)
    assert table.topics_with(TopicFlag.UNIT) == ["unit", "both"]
    assert table.topics_with(TopicFlag.UNIT_SUB) == ["sub", "both"]
    assert table.topics_with(TopicFlag.UNIT_SUB, TopicFlag.UNIT) == ["sub"]


def test_cluster_and_broker_names_are_system_topics(table):
    assert table.names_as_topics() == ([], None)
    table.register(who("b"), what(), "lb", 0)
    table.register(who("a"), what(), "la", 0)
    assert table.names_as_topics() == (["c", "a", "b"], "b:0")


# The model ---------------------------------------------------------------------------------------

NAMES, IDS, TOPICS, LINKS = ["a", "b", "d"], [0, 1], ["T", "U", "V"], ["l1", "l2", "l3"]


@dataclass
class ModelNode:
    name: str
    link: str
    heard_ms: int
    version: int
    broker_id: int


@dataclass
class Model:
    """Nodes by address, topics by broker name; everything else is worked out when asked."""

    nodes: dict[str, ModelNode] = field(default_factory=dict)
    topics: dict[str, dict[str, int]] = field(default_factory=dict)  # name -> topic -> perm

    def forget(self, address):
        gone = self.nodes.pop(address)
        if not any(node.name == gone.name for node in self.nodes.values()):
            self.topics.pop(gone.name, None)

    def routes(self):
        found = {}
        for name, topics in self.topics.items():
            nodes = {n.broker_id: a for a, n in self.nodes.items() if n.name == name}
            for topic, perm in topics.items():
                if nodes:
                    found.setdefault(topic, {})[name] = (nodes, perm)
        return found


class RandomDays(RuleBasedStateMachine):
    """Registers, leaves, closed connections, silence and administrators in any order."""

    def __init__(self):
        super().__init__()
        self.table = RouteTable()
        self.model = Model()
        self.now_ms = 0
        self.encoded_at = {}

    @rule(
        name=st.sampled_from(NAMES),
        broker_id=st.sampled_from(IDS),
        topics=st.sets(st.sampled_from(TOPICS)),
        version=st.integers(1, 3),
        link=st.sampled_from(LINKS),
    )
    def register(self, name, broker_id, topics, version, link):
        header = who(name, broker_id)
        self.table.register(header, what(*topics, version=version), link, self.now_ms)
        known = self.model.nodes.get(header.broker_addr)
        if broker_id == 0 and (known is None or known.version != version):
            perms = self.model.topics.setdefault(name, {})
            perms.update(dict.fromkeys(topics, 6))
        self.model.nodes[header.broker_addr] = ModelNode(
            name, link, self.now_ms, version, broker_id
        )

    @rule(name=st.sampled_from(NAMES), broker_id=st.sampled_from(IDS))
    def unregister(self, name, broker_id):
        header = who(name, broker_id)
        self.table.unregister(leaving(header))
        if header.broker_addr in self.model.nodes:
            self.model.forget(header.broker_addr)

    @rule(link=st.sampled_from(LINKS))
    def connection_closes(self, link):
        self.table.drop(link)
        for address in [a for a, node in self.model.nodes.items() if node.link == link]:
            self.model.forget(address)

    @rule(passed_ms=st.sampled_from([10_000, 60_000, EXPIRY_MS + 1]))
    def time_passes(self, passed_ms):
        self.now_ms += passed_ms
        self.table.expire(self.now_ms, EXPIRY_MS)
        nodes = self.model.nodes
        for address in [a for a, n in nodes.items() if self.now_ms - n.heard_ms > EXPIRY_MS]:
            self.model.forget(address)

    @rule(topic=st.sampled_from(TOPICS))
    def delete_topic(self, topic):
        self.table.delete_topic(topic)
        for perms in self.model.topics.values():
            perms.pop(topic, None)

    @rule(name=st.sampled_from(NAMES), give=st.booleans())
    def change_write_perm(self, name, give):
        change = self.table.add_write_perm if give else self.table.wipe_write_perm
        perms = self.model.topics.get(name, {})
        assert change(name) == len(perms)
        perms.update(dict.fromkeys(perms, 6 if give else 4))

    @invariant()
    def routes_agree(self):
        expected = self.model.routes()
        assert sorted(self.table.topics()) == sorted(expected)
        shown = {}
        for topic in TOPICS:
            route = self.table.route(topic)
            shown[topic] = (
                None
                if route is None
                else {
                    broker.broker_name: (
                        broker.broker_addrs,
                        next(
                            q.perm for q in route.queue_datas if q.broker_name == broker.broker_name
                        ),
                    )
                    for broker in route.broker_datas
                }
            )
            assert shown[topic] == expected.get(topic)
        # What is cached by generation must not have changed behind its back.
        assert self.encoded_at.setdefault(self.table.generation, shown) == shown

    @invariant()
    def clusters_agree(self):
        names = sorted({node.name for node in self.model.nodes.values()})
        clusters = self.table.cluster_info().cluster_addr_table
        assert clusters == ({"c": names} if names else {})


TestRandomDays = RandomDays.TestCase
TestRandomDays.settings = settings(max_examples=examples(150), stateful_step_count=40)
