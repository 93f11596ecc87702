"""Callbacks of RocketMQ's own names: on a thread of theirs, in order, whatever they do."""

import asyncio
import threading
from queue import SimpleQueue

import pytest

from client.fake_cluster import fake_cluster, run
from cometmq.compat import DefaultMQProducer, Message, SendCallback, SendResult
from cometmq.compat.callbacks import Callbacks
from cometmq.errors import BadMessage, Closed, Refused
from cometmq.protocol.bodies import queues
from cometmq.protocol.codes import ResponseCode

WAIT_S_MAX = 60


class Told(SendCallback):
    """Puts what it makes of an outcome in a queue."""

    def __init__(self, then):
        self.outcomes = SimpleQueue()
        self._then = then

    def onSuccess(self, result):
        self.outcomes.put(self._then(result))

    def onException(self, error):
        self.outcomes.put(error)

    def get(self):
        return self.outcomes.get(timeout=WAIT_S_MAX)


def with_producer(story):
    """The story, in a thread of its own, and what the broker got."""

    async def test():
        async with fake_cluster() as cluster:

            def told():
                producer = DefaultMQProducer("senders")
                producer.setNamesrvAddr(cluster.name_servers)
                producer.start()
                try:
                    story(producer, cluster["a"])
                finally:
                    producer.shutdown()

            await asyncio.to_thread(told)
            bodies.extend(body for _, body in cluster["a"].sends)

    bodies = []
    run(test)
    return bodies


def test_a_callback_may_send_again_and_wait():
    def story(producer, broker):
        told = Told(lambda result: producer.send(Message("orders", b"second")).getMsgId())
        producer.send(Message("orders", b"first"), told)
        assert told.get()

    assert with_producer(story) == [b"first", b"second"]


def test_callbacks_come_in_the_order_in_which_sends_end_on_one_thread():
    def story(producer, broker):
        told = Told(lambda result: (result.getQueueOffset(), threading.current_thread().name))
        for _ in range(50):
            producer.send(Message("orders", b"x"), told)
        found = [told.get() for _ in range(50)]
        assert found == sorted(found)
        assert {name for _, name in found} == {"cometmq-callbacks"}

    with_producer(story)


def test_a_callback_that_fails_is_logged_and_the_next_is_told(caplog):
    def story(producer, broker):
        broker.answers = [ResponseCode.SUCCESS, ResponseCode.MESSAGE_ILLEGAL]
        producer.send(Message("orders", b"x"), Told(lambda result: 1 / 0))
        told = Told(lambda result: result)
        producer.send(Message("orders", b"y"), told)
        assert isinstance(told.get(), Refused)

    with_producer(story)
    assert "a callback failed" in caplog.text


def test_a_callback_may_shut_its_producer_down():
    def story(producer, broker):
        told = Told(lambda result: producer.shutdown())
        producer.send(Message("orders", b"x"), told)
        assert told.get() is None
        with pytest.raises(Closed, match="shut down"):
            producer.send(Message("orders", b"y"), told)

    assert with_producer(story) == [b"x"]


def test_the_end_waits_for_callbacks_and_no_thread_stays():
    told, may_end = [], threading.Event()

    class Slow(SendCallback):
        def onException(self, error):
            assert may_end.wait(WAIT_S_MAX)
            told.append(error)

    callbacks = Callbacks()
    tell = callbacks.teller(Slow(), SendResult)
    thread = callbacks._thread
    tell(Closed("one"))
    tell(Closed("two"))
    may_end.set()
    callbacks.close()
    assert [str(each) for each in told] == ["one", "two"]
    assert not thread.is_alive()
    callbacks.close()


def test_a_callback_that_exits_does_not_silence_the_others():
    def story(producer, broker):
        for then in (lambda result: raises(SystemExit()), lambda result: "told"):
            told = Told(then)
            producer.send(Message("orders", b"x"), told)
        assert told.get() == "told"

    def raises(error):
        raise error

    assert with_producer(story) == [b"x", b"x"]


def test_what_cannot_be_sent_is_told_to_the_callback_as_in_java():
    def story(producer, broker):
        told = Told(lambda result: result)
        producer.send(Message("orders", b""), told)
        assert isinstance(told.get(), BadMessage)

    assert with_producer(story) == []
    told, producer = Told(lambda result: result), DefaultMQProducer("senders")
    producer.send(Message("orders", b"x"), told)
    assert isinstance(told.get(), Closed)
    producer.shutdown()
    assert not [each for each in threading.enumerate() if each.name == "cometmq-callbacks"]


def test_a_queue_may_be_one_of_ours():
    def story(producer, broker):
        (queue, *_) = producer.fetchPublishMessageQueues("orders")
        ours = queues.MessageQueue(queue.topic, queue.broker_name, queue.queue_id)
        assert producer.send(Message("orders", b"x"), ours).getMessageQueue() == ours

    assert with_producer(story) == [b"x"]
