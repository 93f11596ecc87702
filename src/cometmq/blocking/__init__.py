"""Blocking clients: the same names and methods, without asyncio.

    with Producer("group", "127.0.0.1:9876") as producer:
        result = producer.send(Message("topic", b"body"))

The clients are thread-safe. One background thread runs the event loop of all of them. Callbacks,
hooks and checks run on that thread and must not block.
"""

from cometmq.blocking.lite_pull import LitePullConsumer
from cometmq.blocking.producer import Producer
from cometmq.blocking.pull import PullConsumer
from cometmq.blocking.push import PushConsumer
from cometmq.blocking.session import Session
from cometmq.blocking.trace import Tracer
from cometmq.blocking.transaction import TransactionProducer

__all__ = [
    "LitePullConsumer",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "Session",
    "Tracer",
    "TransactionProducer",
]
