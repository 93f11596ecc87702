"""The clients for code that does not await: the same names, run by one loop thread.

    with Producer("group", "127.0.0.1:9876") as producer:
        result = producer.send(Message("topic", b"body"))

Any thread may use them. Callbacks, hooks and checks run on the loop's thread and must not wait.
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
