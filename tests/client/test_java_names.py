"""RocketMQ's own names, against brokers that answer as they are told."""

import asyncio
from queue import SimpleQueue
from unittest.mock import Mock

import pytest

from client.fake_cluster import fake_cluster, run, until
from client.received import received
from cometmq.client.consumer.push.concurrent import _split
from cometmq.client.consumer.shared.outcomes import Ack
from cometmq.compat import (
    ConsumeConcurrentlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    LocalTransactionState,
    Message,
    SendCallback,
    TransactionListener,
    TransactionMQProducer,
    push,
)
from cometmq.errors import BadMessage, BadSetting, Closed
from cometmq.protocol.flags import MessageFlag


class Listener(TransactionListener):
    def __init__(self, answer):
        self.answer = answer
        self.ids = []

    def executeLocalTransaction(self, message, arg):
        self.ids.append(message.getTransactionId())
        return self.answer()

    def checkLocalTransaction(self, message):
        raise AssertionError("nobody asks here")


@pytest.mark.parametrize(
    ("answer", "state", "flag"),
    [
        (lambda: None, LocalTransactionState.UNKNOW, 0),
        (lambda: 1 / 0, LocalTransactionState.UNKNOW, 0),
        (lambda: "COMMIT_MESSAGE", LocalTransactionState.UNKNOW, 0),
        (
            lambda: LocalTransactionState.COMMIT_MESSAGE,
            LocalTransactionState.COMMIT_MESSAGE,
            MessageFlag.COMMIT,
        ),
    ],
)
def test_a_transaction_commits_only_if_its_listener_says_so(answer, state, flag):
    async def test():
        async with fake_cluster() as cluster:
            listener = Listener(answer)

            def story():
                producer = TransactionMQProducer("payers")
                producer.setNamesrvAddr(cluster.name_servers)
                producer.setTransactionListener(listener)
                producer.start()
                try:
                    return producer.sendMessageInTransaction(Message("orders", b"x"), None)
                finally:
                    producer.shutdown()

            result = await asyncio.to_thread(story)
            await until(lambda: cluster["a"].ends)
            assert result.getLocalTransactionState() is state
            assert listener.ids == [result.getMsgId()] == [result.getTransactionId()]
            ((_, end),) = cluster["a"].ends
            assert end.commit_or_rollback == flag

    run(test)


class Told(SendCallback):
    def __init__(self):
        self.outcomes = SimpleQueue()

    def onSuccess(self, result):
        self.outcomes.put(result)

    def onException(self, error):
        self.outcomes.put(error)


def test_a_batch_may_have_a_callback():
    async def test():
        async with fake_cluster() as cluster:

            def story():
                producer = DefaultMQProducer("senders")
                producer.setNamesrvAddr(cluster.name_servers)
                producer.start()
                told = Told()
                batch = [Message("orders", b"x"), Message("orders", b"y")]
                queue = producer.fetchPublishMessageQueues("orders")[1]
                for rest in ([told], [told, 3000], [queue, told]):
                    assert producer.send(batch, *rest) is None
                    assert told.outcomes.get(timeout=60).getMsgId().count(",") == 1
                producer.send([Message("orders", b"x"), Message("other", b"y")], told)
                assert isinstance(told.outcomes.get(timeout=60), BadMessage)
                producer.shutdown()
                return queue

            queue = await asyncio.to_thread(story)
            assert [ask.batch for ask, _ in cluster["a"].sends] == ["true"] * 3
            assert cluster["a"].sends[-1][0].queue_id == queue.queue_id

    run(test)


def test_a_batch_takes_no_selector():
    async def test():
        async with fake_cluster() as cluster:

            def story():
                producer = DefaultMQProducer("senders")
                producer.setNamesrvAddr(cluster.name_servers)
                producer.start()
                batch = [Message("orders", b"x")] * 2
                with pytest.raises(TypeError, match="a batch accepts"):
                    producer.send(batch, lambda queues, message, arg: queues[0], None)
                producer.send(batch, 3000)
                with pytest.raises(Closed, match="already started"):
                    producer.start()
                producer.shutdown()

            await asyncio.to_thread(story)
            assert len(cluster.sends) == 1

    run(test)


def test_a_start_that_fails_may_be_tried_again():
    async def test():
        async with fake_cluster() as cluster:

            def story():
                producer = DefaultMQProducer("DEFAULT_PRODUCER")
                with pytest.raises(BadSetting):
                    producer.start()
                producer.setGroup("senders")
                producer.setNamesrvAddr(cluster.name_servers)
                producer.start()
                producer.send(Message("orders", b"x"))
                producer.shutdown()

                consumer = DefaultMQPushConsumer("takers")
                consumer.setNamesrvAddr(cluster.name_servers)
                consumer.registerMessageListener(lambda messages, context: None)
                consumer.subscribe("no topic!")
                with pytest.raises(Exception, match="no topic!"):
                    consumer.start()
                consumer.unsubscribe("no topic!")
                consumer.setConsumeThreadMin(3)

            await asyncio.to_thread(story)
            assert len(cluster.sends) == 1

    run(test)


def test_the_minimum_of_threads_counts():
    consumer = DefaultMQPushConsumer("takers")
    consumer.setConsumeThreadMin(3)
    consumer.setConsumeThreadMax(64)
    _, config = consumer._configs()
    assert config.consume_threads == 3
    assert (consumer.getConsumeThreadMin(), consumer.getConsumeThreadMax()) == (3, 64)
    with pytest.raises(AttributeError):
        DefaultMQProducer("g").setConsumeThreadMax(64)


def test_the_rest_of_a_list_comes_again_by_the_delay_of_the_context():
    def listener(messages, context):
        context.setAckIndex(0)
        context.setDelayLevelWhenNextConsume(3)
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    heard = Mock(consumeMessage=listener)
    assert push._concurrent(heard, is_list=True)([received(0), received(1)]) == Ack(1, 3)
    assert _split(Ack(1, 3), 2) == (1, 3)
