"""Who serves which topic: register, unregister, expire, look up. A plain structure, no I/O.

Five tables. A broker *name* stands for a master (id 0) and its slaves; a *node* is one of them, at
one address. Topics belong to names, life and connection to nodes:

    topic   -> broker name -> queues          cluster -> broker names
    name    -> cluster, id -> address         address -> node: version, last word, link, HA address
                                              address -> filter servers
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from cometmq.protocol.bodies.register import RegisterBroker
from cometmq.protocol.bodies.route import MASTER_ID, BrokerData, ClusterInfo, QueueData, TopicRoute
from cometmq.protocol.bodies.tables import DataVersion, TopicConfig
from cometmq.protocol.flags import Perm, TopicFlag
from cometmq.protocol.headers.namesrv import BrokerHeader, RegisterBrokerHeader

L = TypeVar("L")


@dataclass(slots=True)
class _Node(Generic[L]):
    """One broker process that has not expired."""

    name: str
    version: DataVersion
    heard_ms: int  # monotonic
    link: L
    ha_address: str


@dataclass(slots=True)
class _Broker:
    """The nodes of one broker name."""

    cluster: str
    addresses: dict[int, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Registered:
    """What a broker learns when it registers: a slave, where its master is."""

    ha_address: str | None = None
    master_address: str | None = None


class RouteTable(Generic[L]):
    """See the top of the file. `L` is what tells one connection from another."""

    def __init__(self) -> None:
        self._queues: dict[str, dict[str, QueueData]] = {}
        self._brokers: dict[str, _Broker] = {}
        self._clusters: dict[str, set[str]] = {}
        self._nodes: dict[str, _Node[L]] = {}
        self._filter_servers: dict[str, list[str]] = {}
        self.generation = 0  # grows with every change that a route could show

    # Brokers come and go

    def register(
        self, who: RegisterBrokerHeader, what: RegisterBroker, link: L, now_ms: int
    ) -> Registered:
        """Apply the registration of a broker, or renew it."""
        known = self._nodes.get(who.broker_addr)
        joined = self._join(who)
        if who.broker_id == MASTER_ID and (
            joined or known is None or known.version != what.topics.data_version
        ):
            self._take_topics(who.broker_name, what.topics.topic_config_table)
        self._nodes[who.broker_addr] = _Node(
            who.broker_name, what.topics.data_version, now_ms, link, who.ha_server_addr
        )
        self._take_filter_servers(who.broker_addr, what.filter_server_list)
        return Registered() if who.broker_id == MASTER_ID else self._master_of(who.broker_name)

    def _join(self, who: RegisterBrokerHeader) -> bool:
        """Note the node under its name; True if its name did not have this id before."""
        self._clusters.setdefault(who.cluster_name, set()).add(who.broker_name)
        broker = self._brokers.setdefault(who.broker_name, _Broker(who.cluster_name))
        before = dict(broker.addresses)
        # A slave that became master: the same address must not stand under two ids.
        for node_id in [i for i, addr in before.items() if addr == who.broker_addr]:
            del broker.addresses[node_id]
        broker.addresses[who.broker_id] = who.broker_addr
        if broker.addresses != before:
            self.generation += 1
        return who.broker_id not in before

    def _take_topics(self, name: str, topics: dict[str, TopicConfig]) -> None:
        for topic, config in topics.items():
            self._queues.setdefault(topic, {})[name] = QueueData(
                broker_name=name,
                perm=config.perm,
                read_queue_nums=config.read_queue_nums,
                topic_sys_flag=config.topic_sys_flag,
                write_queue_nums=config.write_queue_nums,
            )
        self.generation += 1

    def _take_filter_servers(self, address: str, servers: list[str] | None) -> None:
        if servers is None or self._filter_servers.get(address, []) == servers:
            return
        if servers:
            self._filter_servers[address] = servers
        else:
            del self._filter_servers[address]
        self.generation += 1

    def _master_of(self, name: str) -> Registered:
        address = self._brokers[name].addresses.get(MASTER_ID)
        master = self._nodes.get(address) if address is not None else None
        return Registered(master.ha_address, address) if master is not None else Registered()

    def is_current(self, address: str, version: DataVersion, now_ms: int) -> bool:
        """Whether this is the registered version. The question renews the registration."""
        node = self._nodes.get(address)
        if node is None or node.version != version:
            return False
        node.heard_ms = now_ms
        return True

    def version_of(self, address: str) -> DataVersion | None:
        """The version of the topics that a node last registered."""
        node = self._nodes.get(address)
        return node.version if node is not None else None

    def unregister(self, who: BrokerHeader) -> None:
        """Unregister a broker. A node that has taken over its id stays."""
        self._nodes.pop(who.broker_addr, None)
        self._filter_servers.pop(who.broker_addr, None)
        broker = self._brokers.get(who.broker_name)
        if broker is not None and broker.addresses.get(who.broker_id) == who.broker_addr:
            del broker.addresses[who.broker_id]
            self._leave_if_empty(who.broker_name, broker)
        self.generation += 1

    def drop(self, link: L) -> list[str]:
        """Remove the nodes whose last request came over a closed connection."""
        return self._forget(address for address, node in self._nodes.items() if node.link == link)

    def expire(self, now_ms: int, silence_ms_max: int) -> list[tuple[str, L]]:
        """Remove expired nodes. Returns their addresses and connections."""
        silent = {
            address: node.link
            for address, node in self._nodes.items()
            if now_ms - node.heard_ms > silence_ms_max
        }
        self._forget(silent)
        return list(silent.items())

    def _forget(self, addresses: Iterable[str]) -> list[str]:
        gone = list(addresses)
        for address in gone:
            node = self._nodes.pop(address)
            self._filter_servers.pop(address, None)
            broker = self._brokers.get(node.name)
            if broker is not None:
                kept = {i: known for i, known in broker.addresses.items() if known != address}
                broker.addresses = kept
                self._leave_if_empty(node.name, broker)
            self.generation += 1
        return gone

    def _leave_if_empty(self, name: str, broker: _Broker) -> None:
        """A name without nodes leaves its cluster, and its queues leave their topics."""
        if broker.addresses:
            return
        del self._brokers[name]
        for cluster in [c for c, names in self._clusters.items() if name in names]:
            self._clusters[cluster].discard(name)
            if not self._clusters[cluster]:
                del self._clusters[cluster]
        for topic in [t for t, queues in self._queues.items() if name in queues]:
            self._drop_queues(topic, {name})

    def _drop_queues(self, topic: str, names: Iterable[str]) -> None:
        for name in names:
            self._queues[topic].pop(name, None)
        if not self._queues[topic]:
            del self._queues[topic]

    # What the administrator changes

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Delete a topic in one cluster or in all."""
        if topic in self._queues:
            names = self._queues[topic] if cluster is None else self._clusters.get(cluster, ())
            self._drop_queues(topic, list(names))
            self.generation += 1

    def wipe_write_perm(self, name: str) -> int:
        """Remove the write permission of a broker. Returns the number of its topics."""
        return self._change_perm(name, lambda perm: perm & ~Perm.WRITE)

    def add_write_perm(self, name: str) -> int:
        """Restore the write permission of a broker. Returns the number of its topics."""
        return self._change_perm(name, lambda perm: Perm.READ | Perm.WRITE)

    def _change_perm(self, name: str, change: Callable[[int], int]) -> int:
        changed = 0
        for queues in self._queues.values():
            if name in queues:
                old = queues[name]
                queues[name] = QueueData(
                    broker_name=name,
                    perm=int(change(old.perm)),
                    read_queue_nums=old.read_queue_nums,
                    topic_sys_flag=old.topic_sys_flag,
                    write_queue_nums=old.write_queue_nums,
                )
                changed += 1
        self.generation += 1
        return changed

    # What clients ask

    def route(self, topic: str, order_conf: str | None = None) -> TopicRoute | None:
        """Queues and brokers of a topic; None if no live broker serves it."""
        queues = self._queues.get(topic, {})
        brokers = [self._broker_data(name) for name in queues if name in self._brokers]
        if not brokers:
            return None
        addresses = [address for one in brokers for address in one.broker_addrs.values()]
        return TopicRoute(
            broker_datas=brokers,
            filter_server_table={
                address: self._filter_servers[address]
                for address in addresses
                if address in self._filter_servers
            },
            order_topic_conf=order_conf,
            queue_datas=list(queues.values()),
        )

    def cluster_info(self) -> ClusterInfo:
        """All clusters and brokers."""
        return ClusterInfo(
            broker_addr_table={name: self._broker_data(name) for name in self._brokers},
            cluster_addr_table={cluster: sorted(n) for cluster, n in self._clusters.items()},
        )

    def _broker_data(self, name: str) -> BrokerData:
        broker = self._brokers[name]
        return BrokerData(
            broker_addrs=dict(broker.addresses), broker_name=name, cluster=broker.cluster
        )

    def topics(self) -> list[str]:
        return list(self._queues)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """Topics that a broker of this cluster serves."""
        names = self._clusters.get(cluster, set())
        return [topic for topic, queues in self._queues.items() if not names.isdisjoint(queues)]

    def topics_with(self, has: TopicFlag, has_not: int = 0) -> list[str]:
        """Topics by their flags, which are the same on every broker."""
        wanted, unwanted = int(has), int(has_not)  # an IntFlag costs 0.3 us at each `&`
        return [
            topic
            for topic, queues in self._queues.items()
            if (flags := next(iter(queues.values())).topic_sys_flag) & wanted
            and not flags & unwanted
        ]

    def names_as_topics(self) -> tuple[list[str], str | None]:
        """Cluster and broker names, which are system topics, and a broker that knows the others."""
        names = [name for cluster, n in self._clusters.items() for name in (cluster, *sorted(n))]
        addresses = (a for broker in self._brokers.values() for a in broker.addresses.values())
        return names, next(addresses, None)
