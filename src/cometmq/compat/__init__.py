"""Clients with the names of RocketMQ's Java API, so that Java programs port line by line.

    producer = DefaultMQProducer("group")
    producer.setNamesrvAddr("localhost:9876")
    producer.start()
    print(producer.send(Message("TopicTest", "TagA", "Hello".encode())))
    producer.shutdown()

All calls block, and durations are milliseconds, as in Java. New programs should use `cometmq` or
`cometmq.blocking`, on which this package is built.
"""

from cometmq.compat.arguments import AclClientRPCHook, SessionCredentials
from cometmq.compat.callbacks import RequestCallback, SendCallback
from cometmq.compat.lite_pull import DefaultLitePullConsumer
from cometmq.compat.messages import Message, MessageExt, SendResult, SendStatus
from cometmq.compat.producer import DefaultMQProducer, MessageQueueSelector
from cometmq.compat.pull import DefaultMQPullConsumer, PullResult, PullStatus
from cometmq.compat.push import (
    ConsumeConcurrentlyContext,
    ConsumeConcurrentlyStatus,
    ConsumeOrderlyContext,
    ConsumeOrderlyStatus,
    DefaultMQPushConsumer,
    MessageListenerConcurrently,
    MessageListenerOrderly,
    MessageSelector,
)
from cometmq.compat.queues import MessageQueue
from cometmq.compat.settings import ConsumeFromWhere, MessageModel
from cometmq.compat.transaction import (
    LocalTransactionState,
    TransactionListener,
    TransactionMQProducer,
    TransactionSendResult,
)

__all__ = [
    "AclClientRPCHook",
    "ConsumeConcurrentlyContext",
    "ConsumeConcurrentlyStatus",
    "ConsumeFromWhere",
    "ConsumeOrderlyContext",
    "ConsumeOrderlyStatus",
    "DefaultLitePullConsumer",
    "DefaultMQProducer",
    "DefaultMQPullConsumer",
    "DefaultMQPushConsumer",
    "LocalTransactionState",
    "Message",
    "MessageExt",
    "MessageListenerConcurrently",
    "MessageListenerOrderly",
    "MessageModel",
    "MessageQueue",
    "MessageQueueSelector",
    "MessageSelector",
    "PullResult",
    "PullStatus",
    "RequestCallback",
    "SendCallback",
    "SendResult",
    "SendStatus",
    "SessionCredentials",
    "TransactionListener",
    "TransactionMQProducer",
    "TransactionSendResult",
]
