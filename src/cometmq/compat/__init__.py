"""RocketMQ's own names for the clients, so that programs written for Java port line by line.

    producer = DefaultMQProducer("group")
    producer.setNamesrvAddr("localhost:9876")
    producer.start()
    print(producer.send(Message("TopicTest", "TagA", "Hello".encode())))
    producer.shutdown()

Everything waits, as there. New programs are better off with the names of `cometmq` and
`cometmq.blocking`, which these stand on.
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
