import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.store.OffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/** Push consumers that take what comes: concurrently, broadcast, filtered. */
final class PushStories {
    static final Map<String, Scenario.Story> TABLE = new LinkedHashMap<>();

    static {
        TABLE.put("Concurrent", PushStories::concurrent);
        TABLE.put("Broadcast", PushStories::broadcast);
        TABLE.put("Tags", PushStories::tags);
        TABLE.put("Sql", PushStories::sql);
        TABLE.put("SqlWrong", PushStories::sqlWrong);
    }

    private PushStories() {
    }

    /** A started consumer that tells of each message and counts it. */
    static DefaultMQPushConsumer listen(Scenario self, String group, String topic, String tags,
        CountDownLatch wanted) throws Exception {
        DefaultMQPushConsumer consumer = self.pushConsumer(group);
        consumer.subscribe(topic, tags);
        register(self, consumer, wanted);
        consumer.start();
        return consumer;
    }

    static void register(Scenario self, DefaultMQPushConsumer consumer, CountDownLatch wanted) {
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                self.said(consumer.getConsumerGroup(), message);
                wanted.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
    }

    /** The sum of a topic's committed offsets, as the broker knows them. */
    static long committed(Scenario self, DefaultMQPushConsumer consumer, String topic)
        throws Exception {
        consumer.getDefaultMQPushConsumerImpl().persistConsumerOffset();
        OffsetStore store = consumer.getDefaultMQPushConsumerImpl().getOffsetStore();
        long sum = 0;
        for (MessageQueue queue : self.queues(topic)) {
            sum += Math.max(0, store.readOffset(queue, ReadOffsetType.READ_FROM_STORE));
        }
        return sum;
    }

    private static void concurrent(Scenario self) throws Exception {
        String topic = self.topic(4);
        self.send(topic, 100);
        CountDownLatch wanted = new CountDownLatch(200);
        DefaultMQPushConsumer consumer = listen(self, "Concurrent-takers", topic, "*", wanted);
        self.send(topic, 100);
        Scenario.await("messages", wanted);
        Scenario.await("committed offsets", () -> committed(self, consumer, topic) == 200);
    }

    private static void broadcast(Scenario self) throws Exception {
        String topic = self.topic(4);
        CountDownLatch wanted = new CountDownLatch(40);
        for (int member = 0; member < 2; member++) {
            DefaultMQPushConsumer consumer = self.pushConsumer("Broadcast-takers");
            String instance = "Broadcast-member-" + member;
            consumer.setInstanceName(instance);
            consumer.setMessageModel(MessageModel.BROADCASTING);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) {
                    self.said(instance, message);
                    wanted.countDown();
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
        }
        self.send(topic, 20);
        Scenario.await("messages", wanted);
    }

    private static void tags(Scenario self) throws Exception {
        String topic = self.topic(2);
        for (String tag : new String[] {"red", "green", "blue", null, "red"}) {
            self.producer().send(Scenario.message(topic, tag, "tag-" + tag));
        }
        CountDownLatch wanted = new CountDownLatch(3);
        listen(self, "Tags-takers", topic, "red || blue", wanted);
        CountDownLatch all = new CountDownLatch(5);
        listen(self, "Tags-all", topic, "*", all);
        Scenario.await("the chosen", wanted);
        Scenario.await("all", all);
    }

    /** The message that ends the story fits; those that do not come before it in the same queue. */
    private static void sql(Scenario self) throws Exception {
        String topic = self.topic(1);
        MessageQueue queue = self.queues(topic).get(0);
        CountDownLatch end = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = self.pushConsumer("Sql-takers");
        consumer.subscribe(topic, MessageSelector.bySql("a > 6 AND colour IN ('red', 'blue')"));
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                self.said("taken", message);
                if (message.getTags().equals("end")) {
                    end.countDown();
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        for (int i = 0; i < 13; i++) {
            Message message = Scenario.message(topic, i == 12 ? "end" : "more", "sql-" + i);
            message.putUserProperty("a", String.valueOf(i));
            message.putUserProperty("colour", i % 2 == 0 ? "red" : "grey");
            self.producer().send(message, queue);
            if (i == 9) {
                consumer.start();
            }
        }
        Scenario.await("the last", end);
    }

    private static void sqlWrong(Scenario self) throws Exception {
        String topic = self.topic(1);
        String[] expressions = {"a >", "a > > 5", "a > 5 AND", "(a > 5", "a == 5", "a != 5",
            "a IN (1, 2)", "NOT a > 5", "colour > 'blue'"};
        for (String expression : expressions) {
            DefaultMQPushConsumer consumer = self.pushConsumer("SqlWrong-takers");
            consumer.subscribe(topic, MessageSelector.bySql(expression));
            register(self, consumer, new CountDownLatch(1));
            try {
                consumer.start();
                self.say("event", "started", "expression", expression);
            } catch (MQClientException error) {
                self.say("event", "refused", "expression", expression,
                    "code", error.getResponseCode());
            }
        }
    }
}
