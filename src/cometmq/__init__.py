"""RocketMQ 4.9 in Python: the names that programs use.

Each is imported when it is first used: servers and short commands need not pay for the clients.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cometmq import errors as errors
    from cometmq.client.config import ClientConfig as ClientConfig
    from cometmq.client.config import ConsumerConfig as ConsumerConfig
    from cometmq.client.config import LitePullConsumerConfig as LitePullConsumerConfig
    from cometmq.client.config import ProducerConfig as ProducerConfig
    from cometmq.client.config import PullConsumerConfig as PullConsumerConfig
    from cometmq.client.config import PushConsumerConfig as PushConsumerConfig
    from cometmq.client.consumer.allocate import Allocation as Allocation
    from cometmq.client.consumer.allocate import Averagely as Averagely
    from cometmq.client.consumer.allocate import AveragelyByCircle as AveragelyByCircle
    from cometmq.client.consumer.allocate import ByConfig as ByConfig
    from cometmq.client.consumer.allocate import ByMachineRoom as ByMachineRoom
    from cometmq.client.consumer.allocate import ConsistentHash as ConsistentHash
    from cometmq.client.consumer.allocate import MachineRoomNearby as MachineRoomNearby
    from cometmq.client.consumer.lite_pull import LitePullConsumer as LitePullConsumer
    from cometmq.client.consumer.outcomes import Ack as Ack
    from cometmq.client.consumer.outcomes import Commit as Commit
    from cometmq.client.consumer.outcomes import Retry as Retry
    from cometmq.client.consumer.outcomes import Rollback as Rollback
    from cometmq.client.consumer.outcomes import Suspend as Suspend
    from cometmq.client.consumer.pull import PullConsumer as PullConsumer
    from cometmq.client.consumer.push import PushConsumer as PushConsumer
    from cometmq.client.dedup import Dedup as Dedup
    from cometmq.client.dedup_stores import MemoryStore as MemoryStore
    from cometmq.client.dedup_stores import SqliteStore as SqliteStore
    from cometmq.client.message import Message as Message
    from cometmq.client.message import PullResult as PullResult
    from cometmq.client.message import PullStatus as PullStatus
    from cometmq.client.message import SendResult as SendResult
    from cometmq.client.message import SendStatus as SendStatus
    from cometmq.client.producer import Producer as Producer
    from cometmq.client.received import ReceivedMessage as ReceivedMessage
    from cometmq.client.session import Session as Session
    from cometmq.client.trace import Tracer as Tracer
    from cometmq.client.transaction import TransactionProducer as TransactionProducer
    from cometmq.client.transaction import TransactionResult as TransactionResult
    from cometmq.client.transaction import TransactionState as TransactionState
    from cometmq.protocol.bodies.heartbeat import ConsumeFrom as ConsumeFrom
    from cometmq.protocol.bodies.heartbeat import MessageModel as MessageModel
    from cometmq.protocol.bodies.queues import MessageQueue as MessageQueue

    __version__: str

_HOME_OF = {
    "Ack": "client.consumer.outcomes",
    "Allocation": "client.consumer.allocate",
    "Averagely": "client.consumer.allocate",
    "AveragelyByCircle": "client.consumer.allocate",
    "ByConfig": "client.consumer.allocate",
    "ByMachineRoom": "client.consumer.allocate",
    "ClientConfig": "client.config",
    "Commit": "client.consumer.outcomes",
    "ConsistentHash": "client.consumer.allocate",
    "ConsumeFrom": "protocol.bodies.heartbeat",
    "ConsumerConfig": "client.config",
    "Dedup": "client.dedup",
    "LitePullConsumer": "client.consumer.lite_pull",
    "LitePullConsumerConfig": "client.config",
    "MachineRoomNearby": "client.consumer.allocate",
    "MemoryStore": "client.dedup_stores",
    "Message": "client.message",
    "MessageModel": "protocol.bodies.heartbeat",
    "MessageQueue": "protocol.bodies.queues",
    "Producer": "client.producer",
    "ProducerConfig": "client.config",
    "PullConsumer": "client.consumer.pull",
    "PullConsumerConfig": "client.config",
    "PullResult": "client.message",
    "PullStatus": "client.message",
    "PushConsumer": "client.consumer.push",
    "PushConsumerConfig": "client.config",
    "ReceivedMessage": "client.received",
    "Retry": "client.consumer.outcomes",
    "Rollback": "client.consumer.outcomes",
    "SendResult": "client.message",
    "SendStatus": "client.message",
    "Session": "client.session",
    "SqliteStore": "client.dedup_stores",
    "Suspend": "client.consumer.outcomes",
    "Tracer": "client.trace",
    "TransactionProducer": "client.transaction",
    "TransactionResult": "client.transaction",
    "TransactionState": "client.transaction",
}
__all__ = ["__version__", "errors", *_HOME_OF]


if not TYPE_CHECKING:  # or a type checker would accept any name

    def __getattr__(name: str) -> object:
        found: object
        if name == "__version__":
            from importlib.metadata import version  # 30 ms, which short commands need not pay

            found = version("cometmq")
        elif name == "errors":
            return import_module("cometmq.errors")
        elif name in _HOME_OF:
            found = getattr(import_module(f"cometmq.{_HOME_OF[name]}"), name)
        else:
            raise AttributeError(
                f"{name} is none of cometmq's public names: {', '.join(sorted(_HOME_OF))}"
            )
        globals()[name] = found
        return found


def __dir__() -> list[str]:
    return sorted(__all__)
