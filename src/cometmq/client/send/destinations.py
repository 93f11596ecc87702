"""Where a producer sends to: the queues, the frame templates and the writers of each topic."""

from functools import partial
from typing import Any, Protocol

from cometmq.client.config import ProducerConfig
from cometmq.client.send.outgoing import CODES, SendKind, SendTemplate
from cometmq.client.send.selectors import TopicQueues
from cometmq.client.session.route import ClientRoute
from cometmq.client.session.session import Session
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.names import with_namespace

_GUESS_MS = 1_000  # how long the guessed route of a missing topic is cached


class Writer(Protocol):
    """Writes sends to one topic at one broker: `SendWriter`."""

    def add(self, send: Any, /) -> None:
        """Write a pending send."""


class Destination:
    """One topic. Its queues have the topic's name without the namespace, as users write it."""

    __slots__ = ("queues", "templates", "wire_topic", "writers")

    def __init__(
        self, wire_topic: str, queues: TopicQueues, templates: dict[SendKind, SendTemplate]
    ) -> None:
        self.wire_topic = wire_topic
        self.queues = queues
        self.templates = templates
        self.writers: dict[str, Writer] = {}  # by broker name


class Destinations:
    """The destinations of one producer, updated when routes change."""

    def __init__(self, session: Session, config: ProducerConfig, group: str) -> None:
        self._session = session
        self._config = config
        self._group = group
        self._by_topic: dict[str, Destination] = {}
        self._stop_following = session.routes.on_change(self._route_changed)
        self.get = self._by_topic.get

    async def of(self, topic: str, *, is_shared: bool = False) -> Destination:
        """Fetch the route of a topic. A missing topic has the queues that brokers would create.

        A shared topic has no namespace: the topic of replies, for example. Raises NoRoute if the
        topic is missing and no broker would create it.
        """
        config, session = self._config, self._session
        wire_topic = topic if is_shared else with_namespace(session.config.namespace, topic)
        route = await session.routes.of_new(
            wire_topic, config.create_topic_key, config.default_topic_queue_nums
        )
        found = self._by_topic.get(topic)  # a concurrent call may have added it
        if found is None:
            templates = {kind: self._template(wire_topic, kind) for kind in CODES}
            found = Destination(wire_topic, self._queues(topic, route), templates)
            self._by_topic[topic] = found
            if session.routes.known(wire_topic) is None:
                forget = partial(self._forget, topic, found)
                session.clock.call_later(_GUESS_MS, forget)
        return found

    def close(self) -> None:
        """Stop following route changes."""
        self._stop_following()
        self._by_topic.clear()

    def _queues(self, topic: str, route: ClientRoute) -> TopicQueues:
        bare = [MessageQueue(topic, each.broker_name, each.queue_id) for each in route.to_write]
        return TopicQueues(topic, bare, self._session.chance)

    def _template(self, wire_topic: str, kind: SendKind) -> SendTemplate:
        return SendTemplate(
            self._group,
            wire_topic,
            default_topic=self._config.create_topic_key,
            default_topic_queue_nums=self._config.default_topic_queue_nums,
            unit_mode=self._session.config.unit_mode,
            kind=kind,
        )

    def _route_changed(self, route: ClientRoute) -> None:
        for topic, known in self._by_topic.items():
            if known.wire_topic == route.topic:
                known.queues = self._queues(topic, route)

    def _forget(self, topic: str, guessed: Destination) -> None:
        is_known = self._session.routes.known(guessed.wire_topic) is not None
        if not is_known and self._by_topic.get(topic) is guessed:
            del self._by_topic[topic]
