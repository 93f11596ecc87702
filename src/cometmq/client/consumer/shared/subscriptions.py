"""The subscriptions of a member: topics, named as on the wire, each with one filter."""

import logging
from collections.abc import Iterator

from cometmq.client.session.connections import failure_level
from cometmq.client.session.route import ClientRoute
from cometmq.client.session.session import Session
from cometmq.errors import BadExpression, BadName, BadSetting, PeerError, WorldError
from cometmq.protocol.bodies.heartbeat import CheckClient, Subscription
from cometmq.protocol.codes import RequestCode
from cometmq.protocol.filter.sql import compile_sql
from cometmq.protocol.filter.tags import ALL, SQL92, TAG, subscription_of
from cometmq.protocol.java.fastjson import dumps
from cometmq.protocol.names import check_topic, retry_topic, with_namespace
from cometmq.seams import Clock

log = logging.getLogger(__name__)


class Subscriptions:
    """The subscriptions by topic. Brokers use the one with the highest version."""

    def __init__(self, namespace: str, clock: Clock) -> None:
        self._namespace = namespace
        self._clock = clock
        self._table: dict[str, Subscription] = {}

    def __iter__(self) -> Iterator[Subscription]:
        return iter(list(self._table.values()))

    def __len__(self) -> int:
        return len(self._table)

    @property
    def topics(self) -> list[str]:
        """All topics, named as on the wire."""
        return list(self._table)

    def of(self, topic: str) -> Subscription | None:
        """The subscription of a topic, named as on the wire."""
        return self._table.get(topic)

    def add(self, topic: str, tags: str = ALL, sql: str | None = None) -> str:
        """Subscribe, or replace a subscription; return the topic, named as on the wire.

        Raises BadSetting if the topic or the expression is invalid.
        """
        row = self.check(topic, tags, sql)
        self._table[row.topic] = row
        return row.topic

    def check(self, topic: str, tags: str = ALL, sql: str | None = None) -> Subscription:
        """The subscription that `add` would store. Raises BadSetting if it is invalid."""
        if sql is not None and tags != ALL:
            raise BadSetting("choose by tags or by sql, not by both: in sql, tags are called TAGS")
        try:
            wire_topic = with_namespace(self._namespace, check_topic(topic))
            if sql is not None:
                compile_sql(sql)
            expression, kind = (tags, TAG) if sql is None else (sql, SQL92)
            return subscription_of(wire_topic, expression, kind, version=self._version(wire_topic))
        except (BadName, BadExpression) as error:
            raise BadSetting(str(error)) from error

    def add_retries(self, wire_group: str) -> None:
        """Subscribe to the retry topic of the group."""
        topic = retry_topic(wire_group)
        self._table[topic] = subscription_of(topic, ALL, version=self._version(topic))

    def remove(self, topic: str) -> str | None:
        """Unsubscribe; return the topic, named as on the wire, if it was subscribed to."""
        wire_topic = with_namespace(self._namespace, topic)
        return wire_topic if self._table.pop(wire_topic, None) is not None else None

    def _version(self, wire_topic: str) -> int:
        known = self._table.get(wire_topic)
        now_ms = self._clock.wall_ms()
        return now_ms if known is None else max(now_ms, known.sub_version + 1)


async def introduce(session: Session, wire_group: str, subscription: Subscription) -> None:
    """Fetch the route of a topic, and let its brokers check the filter.

    Raises Refused if a broker rejects it. A missing topic is only logged: it may be created later.
    """
    try:
        route = await session.routes.of(subscription.topic)
    except (PeerError, WorldError) as error:
        log.log(failure_level(error), "cannot read topic %s yet: %s", subscription.topic, error)
        return
    if subscription.expression_type != TAG:
        await _check_in_brokers(session, wire_group, subscription, route)


async def _check_in_brokers(
    session: Session, wire_group: str, subscription: Subscription, route: ClientRoute
) -> None:
    """Raise Refused if a broker rejects the subscription; unreachable brokers are not asked."""
    ask = CheckClient(client_id=session.client_id, group=wire_group, subscription_data=subscription)
    for broker_name in route.brokers:
        address = session.routes.any_address_of(broker_name)
        if address is not None:
            try:
                await session.ask(address, RequestCode.CHECK_CLIENT_CONFIG, None, dumps(ask))
            except WorldError as error:
                level = failure_level(error)
                log.log(level, "cannot check subscription %s: %s", subscription.topic, error)
