"""Clients come and go."""

from cometmq.protocol.headers.base import Header
from cometmq.protocol.java.spelling import camel


class UnregisterClientHeader(Header, rename=camel(client_id="clientID")):
    """UNREGISTER_CLIENT."""

    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerGroupHeader(Header):
    """GET_CONSUMER_LIST_BY_GROUP, NOTIFY_CONSUMER_IDS_CHANGED, GET_CONSUMER_CONNECTION_LIST."""

    consumer_group: str


class ProducerGroupHeader(Header):
    """GET_PRODUCER_CONNECTION_LIST."""

    producer_group: str
