"""Received messages for tests."""

from cometmq.client.message import ReceivedMessage
from cometmq.protocol.records.hosts import Host
from cometmq.protocol.records.message import StoredMessage
from cometmq.protocol.records.properties import encode_properties


def received(offset=0, body=b"body", *, broker="broker-a", namespace="", properties=None, **fields):
    """A message as a consumer gets it."""
    stored = StoredMessage(
        **{
            "topic": "orders",
            "queue_offset": offset,
            "body": body,
            "store_host": Host("10.0.0.1", 10911),
            "properties_text": encode_properties(properties or {}),
            **fields,
        }
    )
    return ReceivedMessage.of(stored, broker, namespace)
