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
    from cometmq.client.consumer.lite.lite_pull import LitePullConsumer as LitePullConsumer
    from cometmq.client.consumer.lite.pull import PullConsumer as PullConsumer
    from cometmq.client.consumer.push.push import PushConsumer as PushConsumer
    from cometmq.client.consumer.shared.allocate import Allocation as Allocation
    from cometmq.client.consumer.shared.allocate import Averagely as Averagely
    from cometmq.client.consumer.shared.allocate import AveragelyByCircle as AveragelyByCircle
    from cometmq.client.consumer.shared.allocate import ByConfig as ByConfig
    from cometmq.client.consumer.shared.allocate import ByMachineRoom as ByMachineRoom
    from cometmq.client.consumer.shared.allocate import ConsistentHash as ConsistentHash
    from cometmq.client.consumer.shared.allocate import MachineRoomNearby as MachineRoomNearby
    from cometmq.client.consumer.shared.outcomes import Ack as Ack
    from cometmq.client.consumer.shared.outcomes import Commit as Commit
    from cometmq.client.consumer.shared.outcomes import Retry as Retry
    from cometmq.client.consumer.shared.outcomes import Rollback as Rollback
    from cometmq.client.consumer.shared.outcomes import Suspend as Suspend
    from cometmq.client.dedup.dedup import Dedup as Dedup
    from cometmq.client.dedup.stores import MemoryStore as MemoryStore
    from cometmq.client.dedup.stores import SqliteStore as SqliteStore
    from cometmq.client.message import Message as Message
    from cometmq.client.message import PullResult as PullResult
    from cometmq.client.message import PullStatus as PullStatus
    from cometmq.client.message import SendResult as SendResult
    from cometmq.client.message import SendStatus as SendStatus
    from cometmq.client.received import ReceivedMessage as ReceivedMessage
    from cometmq.client.send.producer import Producer as Producer
    from cometmq.client.send.transaction import TransactionProducer as TransactionProducer
    from cometmq.client.send.transaction import TransactionResult as TransactionResult
    from cometmq.client.send.transaction import TransactionState as TransactionState
    from cometmq.client.session.connections import ConnectionChange as ConnectionChange
    from cometmq.client.session.connections import ConnectionEvent as ConnectionEvent
    from cometmq.client.session.session import Session as Session
    from cometmq.client.trace import Tracer as Tracer
    from cometmq.errors import Error as Error
    from cometmq.errors import StoredState as StoredState
    from cometmq.protocol.bodies.heartbeat import ConsumeFrom as ConsumeFrom
    from cometmq.protocol.bodies.heartbeat import MessageModel as MessageModel
    from cometmq.protocol.bodies.queues import MessageQueue as MessageQueue

    __version__: str

_HOME_OF = {
    "Ack": "client.consumer.shared.outcomes",
    "Allocation": "client.consumer.shared.allocate",
    "Averagely": "client.consumer.shared.allocate",
    "AveragelyByCircle": "client.consumer.shared.allocate",
    "ByConfig": "client.consumer.shared.allocate",
    "ByMachineRoom": "client.consumer.shared.allocate",
    "ClientConfig": "client.config",
    "Commit": "client.consumer.shared.outcomes",
    "ConnectionChange": "client.session.connections",
    "ConnectionEvent": "client.session.connections",
    "ConsistentHash": "client.consumer.shared.allocate",
    "ConsumeFrom": "protocol.bodies.heartbeat",
    "ConsumerConfig": "client.config",
    "Dedup": "client.dedup.dedup",
    "Error": "errors",
    "LitePullConsumer": "client.consumer.lite.lite_pull",
    "LitePullConsumerConfig": "client.config",
    "MachineRoomNearby": "client.consumer.shared.allocate",
    "MemoryStore": "client.dedup.stores",
    "Message": "client.message",
    "MessageModel": "protocol.bodies.heartbeat",
    "MessageQueue": "protocol.bodies.queues",
    "Producer": "client.send.producer",
    "ProducerConfig": "client.config",
    "PullConsumer": "client.consumer.lite.pull",
    "PullConsumerConfig": "client.config",
    "PullResult": "client.message",
    "PullStatus": "client.message",
    "PushConsumer": "client.consumer.push.push",
    "PushConsumerConfig": "client.config",
    "ReceivedMessage": "client.received",
    "Retry": "client.consumer.shared.outcomes",
    "Rollback": "client.consumer.shared.outcomes",
    "SendResult": "client.message",
    "SendStatus": "client.message",
    "Session": "client.session.session",
    "SqliteStore": "client.dedup.stores",
    "StoredState": "errors",
    "Suspend": "client.consumer.shared.outcomes",
    "Tracer": "client.trace",
    "TransactionProducer": "client.send.transaction",
    "TransactionResult": "client.send.transaction",
    "TransactionState": "client.send.transaction",
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
