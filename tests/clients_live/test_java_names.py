"""Programs with RocketMQ's own names, on our broker and on Apache's."""

import asyncio
import threading

import pytest

from clients_live.consuming import named
from clients_live.reading import read_all
from cometmq.client.send.producer import Producer
from cometmq.compat import (
    ConsumeConcurrentlyStatus,
    ConsumeFromWhere,
    ConsumeOrderlyStatus,
    DefaultLitePullConsumer,
    DefaultMQProducer,
    DefaultMQPullConsumer,
    DefaultMQPushConsumer,
    LocalTransactionState,
    Message,
    MessageListenerConcurrently,
    MessageListenerOrderly,
    MessageModel,
    MessageQueueSelector,
    MessageSelector,
    PullStatus,
    RequestCallback,
    SendCallback,
    TransactionListener,
    TransactionMQProducer,
)
from cometmq.errors import BadSetting, Closed, NoRoute, TimedOut

WAIT_S_MAX = 60


@pytest.fixture
def producer(cluster):
    """One that has started."""
    one = DefaultMQProducer("java-names")
    one.setNamesrvAddr(cluster.namesrv.address)
    one.start()
    yield one
    one.shutdown()


class Taken:
    """What a consumer got, and when it is enough."""

    def __init__(self, count):
        self.messages = []
        self.enough = threading.Event()
        self._count = count

    def add(self, messages):
        self.messages += messages
        if len(self.messages) >= self._count:
            self.enough.set()

    def wait(self):
        assert self.enough.wait(WAIT_S_MAX), self.messages
        return [message.getBody().decode() for message in self.messages]


def consumer_of(cluster, group, topic, expression="*"):
    consumer = DefaultMQPushConsumer(group)
    consumer.setNamesrvAddr(cluster.namesrv.address)
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer.subscribe(topic, expression)
    return consumer


def test_sends_of_all_kinds_and_a_concurrent_listener(cluster, producer):
    topic = "JavaNames"
    result = producer.send(Message(topic, "TagA", "OrderID001", b"sync"))
    assert repr(result).startswith("SendResult [sendStatus=SEND_OK, msgId=")
    assert result.getMessageQueue().topic == topic
    done = threading.Event()

    class Told(SendCallback):
        def onSuccess(self, result):
            assert result.getMsgId()
            done.set()

    producer.send(Message(topic, "TagA", b"async"), Told())
    assert done.wait(WAIT_S_MAX)
    producer.sendOneway(Message(topic, "TagA", b"oneway"))
    producer.send([Message(topic, "TagA", f"batch-{i}".encode()) for i in range(3)])
    assert producer.viewMessage(result.getOffsetMsgId()).getKeys() == "OrderID001"

    taken = Taken(6)

    class Listener(MessageListenerConcurrently):
        def consumeMessage(self, messages, context):
            taken.add(messages)
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    consumer = consumer_of(cluster, "java-takers", topic, "TagA || TagC")
    consumer.registerMessageListener(Listener())
    consumer.start()
    bodies = taken.wait()
    consumer.shutdown()
    assert sorted(bodies) == ["async", "batch-0", "batch-1", "batch-2", "oneway", "sync"]


def test_order_by_a_selector_and_an_orderly_listener(cluster, producer):
    class ById(MessageQueueSelector):
        def select(self, queues, message, arg):
            return queues[arg % len(queues)]

    for step in range(4):
        for order in (15, 16):
            producer.send(Message("JavaOrders", f"{order}-{step}".encode()), ById(), order)
    taken, refused = Taken(9), []

    def consume(messages, context):
        taken.add(messages)
        if not refused:
            refused.append(messages[0])
            context.setSuspendCurrentQueueTimeMillis(50)
            return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT
        return ConsumeOrderlyStatus.SUCCESS

    consumer = consumer_of(cluster, "java-orderly", "JavaOrders")
    consumer.registerMessageListener(MessageListenerOrderly(consume))
    consumer.start()
    bodies = taken.wait()
    consumer.shutdown()
    for order in ("15", "16"):
        steps = list(dict.fromkeys(body for body in bodies if body.startswith(order)))
        assert steps == [f"{order}-{step}" for step in range(4)]


def test_a_delay_a_filter_and_a_retry(cluster, producer):
    message = Message("JavaFilters", b"late and wanted")
    message.setDelayTimeLevel(1)
    message.putUserProperty("i", "7")
    producer.send(message)
    unwanted = Message("JavaFilters", b"unwanted")
    unwanted.putUserProperty("i", "3")
    producer.send(unwanted)
    taken = Taken(2)

    def consume(messages, context):
        taken.add(messages)
        if messages[0].getReconsumeTimes() == 0:
            context.setDelayLevelWhenNextConsume(1)
            return ConsumeConcurrentlyStatus.RECONSUME_LATER
        return ConsumeConcurrentlyStatus.CONSUME_SUCCESS

    consumer = consumer_of(cluster, "java-filters", "JavaFilters", MessageSelector.bySql("i > 5"))
    consumer.registerMessageListener(consume)
    consumer.start()
    assert taken.wait() == ["late and wanted"] * 2
    consumer.shutdown()
    assert [message.getReconsumeTimes() for message in taken.messages] == [0, 1]
    assert taken.messages[1].getTopic() == "JavaFilters"


def test_transactions_and_lite_pull(cluster):
    class Listener(TransactionListener):
        def executeLocalTransaction(self, message, arg):
            return (
                LocalTransactionState.UNKNOW,
                LocalTransactionState.COMMIT_MESSAGE,
                LocalTransactionState.ROLLBACK_MESSAGE,
            )[arg]

        def checkLocalTransaction(self, message):
            return LocalTransactionState.COMMIT_MESSAGE

    producer = TransactionMQProducer("java-transactions")
    producer.setNamesrvAddr(cluster.namesrv.address)
    producer.setTransactionListener(Listener())
    producer.start()
    for arg in range(3):
        producer.sendMessageInTransaction(Message("JavaTransactions", f"{arg}".encode()), arg)
    consumer = DefaultLitePullConsumer("java-lite")
    consumer.setNamesrvAddr(cluster.namesrv.address)
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer.subscribe("JavaTransactions", "*")
    consumer.start()
    bodies = []
    for _ in range(WAIT_S_MAX):
        bodies += [message.getBody().decode() for message in consumer.poll(1000)]
        if len(bodies) >= 2:
            break
    consumer.commitSync()
    consumer.shutdown()
    producer.shutdown()
    assert sorted(bodies) == ["0", "1"]


def test_requests_to_a_queue_and_with_a_callback(cluster, producer):
    topic = named("JavaAsks")
    queue = producer.send(Message(topic, b"the topic is made by it")).getMessageQueue()
    replies, errors = Taken(1), Taken(1)

    class Told(RequestCallback):
        def onSuccess(self, reply):
            replies.add([reply])

        def onException(self, error):
            errors.add([error])

    producer.request(Message(topic, b"one?"), queue, Told(), WAIT_S_MAX * 1000)
    select = lambda queues, message, arg: arg  # noqa: E731 - as a lambda of Java's
    producer.request(Message(topic, b"two?"), select, queue, Told(), 5_000)

    async def answer():
        address = cluster.namesrv.address
        async with Producer("java-answerers", address) as answerer:
            found = {each.text(): each for each in await read_all(address, topic, 3)}
            assert {each.queue_id for each in found.values()} == {queue.getQueueId()}
            await answerer.reply(found["one?"], b"re: one?")

    asyncio.run(answer())
    assert replies.wait() == ["re: one?"]
    assert errors.enough.wait(WAIT_S_MAX) and isinstance(errors.messages[0], TimedOut)
    with pytest.raises(TimedOut):
        producer.request(Message(topic, b"three?"), 500)
    with pytest.raises(TypeError, match="SendCallback"):
        producer.request(Message(topic, b"four?"), SendCallback(), 500)


def test_pulls_queue_by_queue(cluster, producer):
    """As the programs of Java do that keep their offsets themselves."""
    topic = named("JavaPulls")
    sent = [producer.send(Message(topic, f"Tag{n % 2}", f"{n}".encode())) for n in range(20)]
    last = {each.getMessageQueue(): each.getQueueOffset() for each in sent}
    consumer = DefaultMQPullConsumer("java-pullers")
    consumer.setNamesrvAddr(cluster.namesrv.address)
    consumer.setBrokerSuspendMaxTimeMillis(1_000)
    with pytest.raises(Closed, match="start"):
        consumer.fetchSubscribeMessageQueues(topic)
    consumer.start()
    try:
        bodies = []
        for queue in consumer.fetchSubscribeMessageQueues(topic):
            if queue not in last:
                continue
            offset = consumer.minOffset(queue)
            while offset <= last[queue]:  # Apache's may not have queued the last one yet
                result = consumer.pullBlockIfNotFound(queue, "Tag1", offset, 32)
                bodies += [each.getBody().decode() for each in result.getMsgFoundList()]
                offset = result.getNextBeginOffset()
            consumer.updateConsumeOffset(queue, offset)
            assert consumer.fetchConsumeOffset(queue, True) == offset == result.getMaxOffset()
            at_end = consumer.pull(queue, None, offset, 32)
            assert at_end.getPullStatus() is PullStatus.NO_NEW_MSG and not at_end.getMsgFoundList()
            assert f"nextBeginOffset={offset}," in repr(at_end)
            beyond = consumer.pull(queue, MessageSelector.byTag("Tag0"), offset + 100, 32)
            assert beyond.getPullStatus() is PullStatus.OFFSET_ILLEGAL
            assert consumer.earliestMsgStoreTime(queue) > 0
            assert consumer.searchOffset(queue, 0) == 0
        assert sorted(map(int, bodies)) == list(range(1, 20, 2))
        assert consumer.viewMessage(sent[0].getOffsetMsgId()).getBody() == b"0"
    finally:
        consumer.shutdown()


def test_settings_have_java_s_names():
    producer = DefaultMQProducer("names")
    producer.setRetryTimesWhenSendFailed(5)
    producer.setSendMsgTimeout(1234)
    assert (producer.getRetryTimesWhenSendFailed(), producer.getSendMsgTimeout()) == (5, 1234)
    assert producer.getMaxMessageSize() == 4 << 20
    assert producer.isVipChannelEnabled() is False
    with pytest.raises(AttributeError, match="did you mean setRetryTimesWhenSendFailed"):
        producer.setRetryTimeWhenSendFailed(1)
    with pytest.raises(Closed, match="call start"):
        producer.send(Message("T", b"x"))
    consumer = DefaultMQPushConsumer("names")
    consumer.setMessageModel(MessageModel.BROADCASTING)
    consumer.setConsumeTimeout(3)
    assert consumer.getConsumeTimeout() == 3
    with pytest.raises(BadSetting, match="registerMessageListener"):
        consumer.start()


def test_what_java_would_not_compile_is_told(cluster, producer):
    with pytest.raises(TypeError, match="followed by its argument"):
        producer.send(Message("T", b"x"), lambda queues, message, arg: queues[0])
    with pytest.raises(TypeError, match="accepts no str"):
        producer.send(Message("T", b"x"), "queue")
    with pytest.raises(TypeError, match="Message"):
        Message("T", "tags", "keys", "more", b"x")
    with pytest.raises(Closed, match="before start"):
        producer.setSendMsgTimeout(1)
    with pytest.raises(NoRoute):
        producer.fetchPublishMessageQueues("NotThere")
