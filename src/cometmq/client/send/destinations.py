"""Where a producer sends to: for each topic its queues, its frames and the connections in use."""

from collections.abc import Callable
from functools import partial

from cometmq.client.config import ProducerConfig
from cometmq.client.send.selectors import TopicQueues
from cometmq.client.send.send_template import SendTemplate
from cometmq.client.send.write_batcher import Burst
from cometmq.client.session.route import ClientRoute
from cometmq.client.session.session import Session
from cometmq.protocol.bodies.queues import MessageQueue
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.names import with_namespace
from cometmq.remoting.channel import Channel

_GUESS_MS = 1_000  # how long the queues of a topic are believed that is not there yet


class Destination:
    """One topic. Its queues carry the topic's name without the namespace, as users write it."""

    __slots__ = ("batch", "bursts", "channels", "queues", "reply", "single", "topic", "wire_topic")

    def __init__(
        self,
        topic: str,
        wire_topic: str,
        queues: TopicQueues,
        template: Callable[[RequestCode], SendTemplate],
    ) -> None:
        self.topic = topic
        self.wire_topic = wire_topic
        self.queues = queues
        self.single = template(RequestCode.SEND_MESSAGE_V2)
        self.batch = template(RequestCode.SEND_BATCH_MESSAGE)
        self.reply = template(RequestCode.SEND_REPLY_MESSAGE_V2)
        self.bursts: dict[str, Burst] = {}  # by broker name
        self.channels: dict[str, Channel] = {}  # the last one, by broker name


class Destinations:
    """Kept while routes stay as they are."""

    def __init__(self, session: Session, config: ProducerConfig, group: str) -> None:
        self._session = session
        self._config = config
        self._group = group
        self._by_topic: dict[str, Destination] = {}
        self._leave = session.routes.on_change(self._route_changed)
        self.get = self._by_topic.get

    async def of(self, topic: str, *, is_shared: bool = False) -> Destination:
        """Of a topic; of one that is not there, as brokers would make it. NoRoute if none would.

        One that is shared is of all namespaces: that of replies, say.
        """
        config, session = self._config, self._session
        wire_topic = topic if is_shared else with_namespace(session.config.namespace, topic)
        route = await session.routes.of_new(
            wire_topic, config.create_topic_key, config.default_topic_queue_nums
        )
        found = self._by_topic.get(topic)  # another caller may have been told as well
        if found is None:
            found = self._by_topic[topic] = self._made(topic, route)
            if session.routes.known(wire_topic) is None:
                forget = partial(self._forget, topic, found)
                session.clock.call_later(_GUESS_MS, forget)
        return found

    def close(self) -> None:
        """Follow no more."""
        self._leave()
        self._by_topic.clear()

    def _made(self, topic: str, route: ClientRoute) -> Destination:
        queues = self._queues(topic, route)
        return Destination(topic, route.topic, queues, partial(self._template, route.topic))

    def _queues(self, topic: str, route: ClientRoute) -> TopicQueues:
        bare = [MessageQueue(topic, each.broker_name, each.queue_id) for each in route.to_write]
        return TopicQueues(topic, bare, self._session.chance)

    def _template(self, wire_topic: str, code: RequestCode) -> SendTemplate:
        return SendTemplate(
            self._group,
            wire_topic,
            default_topic=self._config.create_topic_key,
            default_topic_queue_nums=self._config.default_topic_queue_nums,
            unit_mode=self._session.config.unit_mode,
            code=code,
        )

    def _route_changed(self, route: ClientRoute) -> None:
        for topic, known in self._by_topic.items():
            if known.wire_topic == route.topic:
                known.queues = self._queues(topic, route)

    def _forget(self, topic: str, guessed: Destination) -> None:
        is_known = self._session.routes.known(guessed.wire_topic) is not None
        if not is_known and self._by_topic.get(topic) is guessed:
            del self._by_topic[topic]
