"""Connected clients: producers, consumers, subscriptions of groups, and last heartbeats."""

import logging
from collections.abc import Iterable

import msgspec

from cometmq.log_event import LogEvent
from cometmq.protocol.bodies.heartbeat import (
    ConsumeFrom,
    ConsumerData,
    ConsumeType,
    Heartbeat,
    MessageModel,
    Subscription,
)
from cometmq.remoting.dispatch import Link

log = logging.getLogger(__name__)

SILENCE_MS_MAX = 120_000


class Client(msgspec.Struct):
    """One client as one group's member. `heard_ms` is monotonic, `heard_wall_ms` is for people."""

    link: Link
    client_id: str
    language: str
    version: int
    heard_ms: int
    heard_wall_ms: int


class ConsumerGroup(msgspec.Struct):
    """The members of a group and their subscriptions. The last heartbeat decides."""

    consume_type: ConsumeType
    message_model: MessageModel
    consume_from: ConsumeFrom
    members: dict[Link, Client] = {}
    subscriptions: dict[str, Subscription] = {}
    said: dict[str, frozenset[tuple[str, str, str]]] = {}  # client id: topic, kind, expression
    retries: dict[Link, int] = {}  # maximum redeliveries, by member

    def take(self, data: ConsumerData) -> bool:
        """Apply the heartbeat of a member. Returns whether the subscriptions changed."""
        self.consume_type = data.consume_type
        self.message_model = data.message_model
        self.consume_from = data.consume_from_where
        wanted = {each.topic: each for each in data.subscription_data_set}
        is_changed = False
        for topic, subscription in wanted.items():
            known = self.subscriptions.get(topic)
            if known is None or subscription.sub_version > known.sub_version:
                self.subscriptions[topic] = subscription
                is_changed |= known is None
        for topic in self.subscriptions.keys() - wanted.keys():
            del self.subscriptions[topic]
            is_changed = True
        return is_changed

    def forget_what_was_said(self, client_id: str) -> None:
        """Forget the subscriptions of a member that left, unless another one has its id."""
        if all(client.client_id != client_id for client in self.members.values()):
            self.said.pop(client_id, None)

    @property
    def retries_max(self) -> int | None:
        """Of those members that said a number, the one that joined last decides for all."""
        return next(
            (self.retries[each] for each in reversed(self.members) if each in self.retries), None
        )

    @property
    def agrees(self) -> bool:
        """Whether all members have the same subscriptions. If not, some members lose messages."""
        return len(set(self.said.values())) <= 1

    @property
    def differences(self) -> dict[str, dict[str, str]]:
        """By topic, what each member wants of it, where they differ; empty if a member does not."""
        if self.agrees:
            return {}
        wanted: dict[str, dict[str, str]] = {}
        for client_id, said in self.said.items():
            for topic, kind, expression in said:
                of_topic = wanted.setdefault(topic, dict.fromkeys(self.said, ""))
                of_topic[client_id] = expression if kind in ("TAG", "") else f"{kind}: {expression}"
        return {topic: each for topic, each in wanted.items() if len(set(each.values())) > 1}


class Clients:
    """Groups of producers and of consumers, by name."""

    def __init__(self) -> None:
        self.producers: dict[str, dict[Link, Client]] = {}
        self.consumers: dict[str, ConsumerGroup] = {}
        self._groups_of: dict[Link, tuple[set[str], set[str]]] = {}  # as producer, as consumer

    def heard(self, beat: Heartbeat, client: Client) -> list[str]:
        """Apply a heartbeat. Returns the consumer groups that it changed."""
        produces, consumes = self._groups_of.setdefault(client.link, (set(), set()))
        for producer in beat.producer_data_set:
            group = self.producers.setdefault(producer.group_name, {})
            if client.link not in group:
                log.info(_event("producer joined", producer.group_name, client, len(group) + 1))
            group[client.link] = client
            produces.add(producer.group_name)
        changed = []
        for data in beat.consumer_data_set:
            consumes.add(data.group_name)
            if self._consumes(data, client):
                changed.append(data.group_name)
        return changed

    def _consumes(self, data: ConsumerData, client: Client) -> bool:
        name = data.group_name
        group = self.consumers.get(name)
        if group is None:
            group = self.consumers[name] = ConsumerGroup(
                data.consume_type, data.message_model, data.consume_from_where
            )
        before = group.members.get(client.link)
        group.members[client.link] = client
        if before is None:
            log.info(_event("consumer joined", name, client, len(group.members)))
        if before is not None and before.client_id != client.client_id:
            group.forget_what_was_said(before.client_id)
        is_changed = group.take(data)
        said = frozenset(
            (each.topic, each.expression_type, each.sub_string)
            for each in data.subscription_data_set
        )
        if group.said.get(client.client_id) != said:
            group.said[client.client_id] = said
            if not group.agrees:
                log.warning(
                    LogEvent(
                        "members of a group subscribe differently",
                        group=name,
                        client_id=client.client_id,
                        subscription=sorted(said),
                    )
                )
        return before is None or is_changed

    def leave(
        self, link: Link, producer_group: str | None, consumer_group: str | None
    ) -> list[str]:
        """Remove a client from a group. Returns the consumer groups that changed."""
        produces, consumes = self._groups_of.get(link, (set(), set()))
        if producer_group is not None and producer_group in produces:
            self._drop_producer(producer_group, link)
            produces.discard(producer_group)
        changed = []
        if consumer_group is not None and consumer_group in consumes:
            self._drop_consumer(consumer_group, link)
            consumes.discard(consumer_group)
            changed.append(consumer_group)
        if not produces and not consumes:
            self._groups_of.pop(link, None)
        return changed

    def drop(self, link: Link) -> list[str]:
        """Remove a closed connection. Returns the consumer groups that changed."""
        produces, consumes = self._groups_of.pop(link, (set(), set()))
        for group in produces:
            self._drop_producer(group, link)
        for group in consumes:
            self._drop_consumer(group, link)
        return list(consumes)

    def silent(self, now_ms: int) -> list[Link]:
        """Connections with a member whose last heartbeat is too old. Live clients reconnect."""
        return [
            link
            for link in self._groups_of
            if any(now_ms - one.heard_ms > SILENCE_MS_MAX for one in self._clients_on(link))
        ]

    def links_of(self, group: str) -> list[Link]:
        """The connections of a consumer group."""
        found = self.consumers.get(group)
        return list(found.members) if found is not None else []

    def member(self, group: str, client_id: str) -> Client | None:
        """The member of a consumer group with this id."""
        found = self.consumers.get(group)
        members: Iterable[Client] = found.members.values() if found is not None else ()
        return next((client for client in members if client.client_id == client_id), None)

    def retries_max(self, group: str, link: Link, said: int | None) -> int | None:
        """The maximum redeliveries of a group, after a client has given its own limit.

        A client that is no member speaks for itself, and only where no member has spoken.
        """
        found = self.consumers.get(group)
        if found is None:
            return said
        if said is not None and link in found.members:
            found.retries[link] = said
        decided = found.retries_max
        return said if decided is None else decided

    def producer_links(self, group: str) -> list[Link]:
        """The connections of a producer group."""
        return list(self.producers.get(group, {}))

    def link_of_client(self, client_id: str) -> Link | None:
        """The connection of the producer with this id, in any group."""
        for clients in self.producers.values():
            for link, client in clients.items():
                if client.client_id == client_id:
                    return link
        return None

    def _clients_on(self, link: Link) -> list[Client]:
        produces, consumes = self._groups_of[link]
        return [self.producers[group][link] for group in produces] + [
            self.consumers[group].members[link] for group in consumes
        ]

    def _drop_producer(self, name: str, link: Link) -> None:
        group = self.producers[name]
        log.info(_event("producer left", name, group.pop(link), len(group)))
        if not group:
            del self.producers[name]

    def _drop_consumer(self, name: str, link: Link) -> None:
        group = self.consumers[name]
        gone = group.members.pop(link)
        log.info(_event("consumer left", name, gone, len(group.members)))
        group.forget_what_was_said(gone.client_id)
        group.retries.pop(link, None)
        if not group.members:
            del self.consumers[name]


def _event(text: str, group: str, client: Client, members: int) -> LogEvent:
    return LogEvent(text, group=group, client_id=client.client_id, members=members)
