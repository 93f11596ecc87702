"""Headers of requests about connected clients."""

from cometmq.protocol.headers.base import Header
from cometmq.protocol.java.spelling import camel


class UnregisterClientHeader(Header, rename=camel(client_id="clientID")):
    """The fields of a UNREGISTER_CLIENT request."""

    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None


class ConsumerGroupHeader(Header):
    """The fields of requests that name only a consumer group."""

    consumer_group: str


class ProducerGroupHeader(Header):
    """The fields of a GET_PRODUCER_CONNECTION_LIST request."""

    producer_group: str
