"""Two Java programs, ported line by line: steps of orders in order, and a splitter of batches."""

# Names and lines are those of the programs.
# ruff: noqa: N806, UP031, RET504

import threading
from datetime import datetime

from cometmq.compat import (
    ConsumeFromWhere,
    ConsumeOrderlyStatus,
    DefaultMQProducer,
    DefaultMQPushConsumer,
    Message,
    MessageListenerOrderly,
    MessageQueueSelector,
    SendStatus,
)

WAIT_S_MAX = 60


class OrderStep:
    def __init__(self, orderId, desc):
        self.orderId = orderId
        self.desc = desc

    def getOrderId(self):
        return self.orderId

    def __str__(self):
        return f"OrderStep{{orderId={self.orderId}, desc='{self.desc}'}}"


def buildOrders():
    return [
        OrderStep(15103111039, "创建"),
        OrderStep(15103111065, "创建"),
        OrderStep(15103111039, "付款"),
        OrderStep(15103117235, "创建"),
        OrderStep(15103111065, "付款"),
        OrderStep(15103117235, "付款"),
        OrderStep(15103111065, "完成"),
        OrderStep(15103111039, "推送"),
        OrderStep(15103117235, "完成"),
        OrderStep(15103111039, "完成"),
    ]


class ByOrder(MessageQueueSelector):
    def select(self, mqs, msg, arg):
        index = arg % len(mqs)
        return mqs[index]


def test_steps_of_orders_are_consumed_in_order(cluster):
    producer = DefaultMQProducer("please_rename_unique_group_name")
    producer.setNamesrvAddr(cluster.namesrv.address)
    producer.setSendMsgTimeout(WAIT_S_MAX * 1000)
    producer.start()
    tags = ["TagA", "TagC", "TagD"]
    orderList = buildOrders()
    dateStr = datetime.now().strftime("%Y-%m-%d %H:%M:%S")
    printed = []
    for i in range(10):
        body = f"{dateStr} Hello RocketMQ {orderList[i]}"
        msg = Message("OrderTopic", tags[i % len(tags)], f"KEY{i}", body.encode())
        sendResult = producer.send(msg, ByOrder(), orderList[i].getOrderId())
        assert sendResult.getSendStatus() == SendStatus.SEND_OK
        printed.append(
            "SendResult status:%s, queueId:%d, body:%s"
            % (sendResult.getSendStatus(), sendResult.getMessageQueue().getQueueId(), body)
        )
    producer.shutdown()
    assert printed[0].startswith("SendResult status:SEND_OK, queueId:")

    contents, places, enough = [], set(), threading.Event()

    class InOrder(MessageListenerOrderly):
        def consumeMessage(self, msgs, context):
            context.setAutoCommit(True)
            for msg in msgs:
                contents.append((msg.getQueueId(), msg.getBody().decode()))
                queue = context.getMessageQueue()
                places.add((queue.getTopic(), queue.getBrokerName(), context.isAutoCommit()))
            if len(contents) >= 10:
                enough.set()
            return ConsumeOrderlyStatus.SUCCESS

    consumer = DefaultMQPushConsumer("please_rename_unique_group_name_3")
    consumer.setNamesrvAddr(cluster.namesrv.address)
    consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET)
    consumer.subscribe("OrderTopic", "TagA || TagC || TagD")
    consumer.registerMessageListener(InOrder())
    consumer.start()
    assert enough.wait(WAIT_S_MAX), contents
    consumer.shutdown()
    for order in {step.getOrderId() for step in orderList}:
        steps = [text for _, text in contents if f"orderId={order}" in text]
        wanted = [str(step) for step in orderList if step.getOrderId() == order]
        assert [text.partition("Hello RocketMQ ")[2] for text in steps] == wanted
    assert places == {("OrderTopic", cluster.broker.name, True)}


class ListSplitter:
    SIZE_LIMIT = 1024 * 1024 * 4

    def __init__(self, messages):
        self.messages = messages
        self.currIndex = 0

    def hasNext(self):
        return self.currIndex < len(self.messages)

    def next(self):
        startIndex = self.getStartIndex()
        nextIndex = startIndex
        totalSize = 0
        while nextIndex < len(self.messages):
            message = self.messages[nextIndex]
            tmpSize = self.calcMessageSize(message)
            if tmpSize + totalSize > self.SIZE_LIMIT:
                break
            totalSize += tmpSize
            nextIndex += 1
        subList = self.messages[startIndex:nextIndex]
        self.currIndex = nextIndex
        return subList

    def getStartIndex(self):
        currMessage = self.messages[self.currIndex]
        tmpSize = self.calcMessageSize(currMessage)
        while tmpSize > self.SIZE_LIMIT:
            self.currIndex += 1
            message = self.messages[self.currIndex]
            tmpSize = self.calcMessageSize(message)
        return self.currIndex

    def calcMessageSize(self, message):
        tmpSize = len(message.getTopic()) + len(message.getBody())
        properties = message.getProperties()
        for key, value in properties.items():
            tmpSize += len(key) + len(value)
        tmpSize = tmpSize + 20
        return tmpSize


def test_a_long_list_is_split_and_sent(cluster):
    producer = DefaultMQProducer("ExampleProducerGroup")
    producer.setNamesrvAddr(cluster.namesrv.address)
    producer.setSendMsgTimeout(WAIT_S_MAX * 1000)
    producer.start()
    body = b"x" * (1024 * 1024)
    messages = [Message("BatchTopic", "Tag1", f"OrderID{i}", body) for i in range(6)]
    assert messages[0].getProperties() == {"TAGS": "Tag1", "KEYS": "OrderID0", "WAIT": "true"}
    splitter = ListSplitter(messages)
    sizes, results = [], []
    while splitter.hasNext():
        listItem = splitter.next()
        results.append(producer.send(listItem))
        sizes.append(len(listItem))
    assert sizes == [3, 3]
    assert [result.getSendStatus() for result in results] == [SendStatus.SEND_OK] * 2
    assert [len(result.getMsgId().split(",")) for result in results] == [3, 3]
    producer.shutdown()


def test_a_message_tells_what_it_was_given():
    message = Message("T", "Tag", "one two", 7, b"x", False)
    message.putUserProperty("i", "3")
    assert (message.getFlag(), message.isWaitStoreMsgOK()) == (7, False)
    assert (message.getProperty("i"), message.getProperty("KEYS")) == ("3", "one two")
    sent = message.as_sent()
    assert (sent.keys, sent.tags, sent.flag, sent.wait) == (("one", "two"), "Tag", 7, False)
    assert dict(sent.properties) == {"i": "3"}
