import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.exception.MQBrokerException;
import org.apache.rocketmq.client.exception.RequestTimeoutException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.RequestCallback;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.client.utils.MessageUtil;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** All the ways to send. */
final class SendStories {
    static final Map<String, Scenario.Story> TABLE = new LinkedHashMap<>();
    private static final String WORDS = "消息 – ünïcödé 😀";

    static {
        TABLE.put("Sync", SendStories::sync);
        TABLE.put("Async", SendStories::async);
        TABLE.put("Oneway", SendStories::oneway);
        TABLE.put("Batch", SendStories::batch);
        TABLE.put("Compressed", SendStories::compressed);
        TABLE.put("Utf8", SendStories::utf8);
        TABLE.put("Selected", SendStories::selected);
        TABLE.put("AutoMade", SendStories::autoMade);
        TABLE.put("Refused", SendStories::refused);
        TABLE.put("Delayed", SendStories::delayed);
        TABLE.put("Request", SendStories::request);
        TABLE.put("Traced", SendStories::traced);
    }

    private SendStories() {
    }

    private static void sync(Scenario self) throws Exception {
        String topic = self.topic(4);
        for (int i = 0; i < 8; i++) {
            Message message = Scenario.message(topic, "tag" + i % 2, "sync-" + i);
            message.setKeys(Arrays.asList("k" + i, "all"));
            message.setFlag(7);
            message.putUserProperty("number", String.valueOf(i));
            self.said("sent", self.producer().send(message));
        }
        self.tellAll(topic, 8);
    }

    private static void async(Scenario self) throws Exception {
        String topic = self.topic(4);
        CountDownLatch answered = new CountDownLatch(50);
        for (int i = 0; i < 50; i++) {
            self.producer().send(Scenario.message(topic, null, "async-" + i), new SendCallback() {
                @Override
                public void onSuccess(SendResult result) {
                    self.said("sent", result);
                    answered.countDown();
                }

                @Override
                public void onException(Throwable error) {
                    self.say("error", error.toString());
                    answered.countDown();
                }
            });
        }
        Scenario.await("answers", answered);
        self.tellAll(topic, 50);
    }

    private static void oneway(Scenario self) throws Exception {
        String topic = self.topic(4);
        for (int i = 0; i < 10; i++) {
            self.producer().sendOneway(Scenario.message(topic, null, "oneway-" + i));
        }
        self.tellAll(topic, 10);
    }

    private static void batch(Scenario self) throws Exception {
        String topic = self.topic(4);
        List<Message> messages = new ArrayList<>();
        for (int i = 0; i < 10; i++) {
            Message message = Scenario.message(topic, "tag" + i % 2, "batch-" + i);
            message.setKeys("k" + i);
            messages.add(message);
        }
        self.said("sent", self.producer().send(messages));
        self.tellAll(topic, 10);
    }

    private static void compressed(Scenario self) throws Exception {
        String topic = self.topic(1);
        byte[] body = new byte[100_000];
        for (int i = 0; i < body.length; i++) {
            body[i] = (byte) (i / 1000);
        }
        self.say("event", "made", "size", body.length, "hash", Arrays.hashCode(body));
        self.said("sent", self.producer().send(new Message(topic, body)));
        self.tellAll(topic, 1);
    }

    private static void utf8(Scenario self) throws Exception {
        String topic = self.topic(1);
        Message message = Scenario.message(topic, "标签", WORDS);
        message.setKeys("钥匙");
        message.putUserProperty("名", WORDS);
        self.said("sent", self.producer().send(message));
        self.tellAll(topic, 1);
    }

    private static void selected(Scenario self) throws Exception {
        String topic = self.topic(4);
        for (int i = 0; i < 12; i++) {
            self.said("sent", self.producer().send(Scenario.message(topic, null, "selected-" + i),
                (queues, message, key) -> queues.get((Integer) key % queues.size()), i % 3));
        }
        self.tellAll(topic, 12);
    }

    private static void autoMade(Scenario self) throws Exception {
        self.said("sent", self.producer().send(Scenario.message(self.name, null, "first")));
        self.awaitRoute(self.name, 4);
        self.tellAll(self.name, 1);
    }

    private static void refused(Scenario self) throws Exception {
        String topic = self.topic(1);
        DefaultMQProducer producer = self.quick(new DefaultMQProducer("Refused-large"));
        producer.setMaxMessageSize(8 << 20);
        producer.setCompressMsgBodyOverHowmuch(16 << 20);
        producer.start();
        self.owned(producer, producer::shutdown);
        try {
            self.said("sent", producer.send(new Message(topic, new byte[5 << 20]), 10_000));
        } catch (MQBrokerException error) {
            self.say("event", "refused", "code", error.getResponseCode());
        }
        self.said("sent", producer.send(new Message(topic, new byte[3 << 20]), 10_000));
        self.tellAll(topic, 1);
    }

    private static void delayed(Scenario self) throws Exception {
        String topic = self.topic(4);
        for (int level : new int[] {3, 2, 1, 3}) {
            Message message = Scenario.message(topic, "later", "level-" + level);
            message.setDelayTimeLevel(level);
            self.said("sent", self.producer().send(message));
        }
        CountDownLatch wanted = new CountDownLatch(4);
        PushStories.listen(self, "Delayed-takers", topic, "later", wanted);
        Scenario.await("messages", wanted);
    }

    private static void request(Scenario self) throws Exception {
        String topic = self.topic(4);
        DefaultMQProducer answerer = self.quick(new DefaultMQProducer("Request-answerers"));
        answerer.start();
        self.owned(answerer, answerer::shutdown);
        DefaultMQPushConsumer consumer = self.pushConsumer("Request-takers");
        consumer.subscribe(topic, "ask");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                String asked = new String(message.getBody(), StandardCharsets.UTF_8);
                try {
                    Message reply = MessageUtil.createReplyMessage(message,
                        ("answer to " + asked).getBytes(StandardCharsets.UTF_8));
                    self.said("answered", answerer.send(reply, 5000));
                } catch (Exception error) {
                    self.say("error", error.toString());
                }
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        for (int i = 0; i < 3; i++) {
            Message reply =
                self.producer().request(Scenario.message(topic, "ask", "question " + i), 30_000);
            self.say("event", "reply", "topic", reply.getTopic(),
                "body", new String(reply.getBody(), StandardCharsets.UTF_8));
        }
        CountDownLatch called = new CountDownLatch(1);
        Message last = Scenario.message(topic, "ask", "question 3");
        self.producer().request(last, new RequestCallback() {
            @Override
            public synchronized void onSuccess(Message reply) {
                // The client calls at the end of the send as well, before the reply or after it.
                if (reply == null || called.getCount() == 0) {
                    return;
                }
                self.say("event", "reply", "topic", reply.getTopic(),
                    "body", new String(reply.getBody(), StandardCharsets.UTF_8));
                called.countDown();
            }

            @Override
            public void onException(Throwable error) {
                self.say("error", error.toString());
                called.countDown();
            }
        }, 30_000);
        Scenario.await("the callback", called);
        try {
            self.producer().request(Scenario.message(topic, "nobody", "unanswered"), 3000);
        } catch (RequestTimeoutException error) {
            self.say("event", "timeout", "code", error.getResponseCode());
        }
    }

    private static void traced(Scenario self) throws Exception {
        String topic = self.topic(1);
        DefaultMQProducer producer =
            self.quick(new DefaultMQProducer("Traced-makers", true, null));
        producer.start();
        DefaultMQPushConsumer consumer = self.quick(new DefaultMQPushConsumer(
            "Traced-takers", true, null));
        CountDownLatch wanted = new CountDownLatch(1);
        consumer.subscribe(topic, "*");
        PushStories.register(self, consumer, wanted);
        Message message = Scenario.message(topic, "t", "traced");
        message.setKeys("trace-key");
        self.said("sent", producer.send(message));
        consumer.start();
        Scenario.await("the message", wanted);
        // Before the shutdown, which waits half a second for those that are on their way.
        Scenario.await("all traces", () -> {
            String texts = self.read("RMQ_SYS_TRACE_TOPIC", 2).stream()
                .map(SendStories::text).collect(Collectors.joining());
            return Stream.of("Pub", "SubBefore", "SubAfter").allMatch(texts::contains);
        });
        for (MessageExt trace : self.read("RMQ_SYS_TRACE_TOPIC", 2)) {
            self.say("event", "trace", "keys", trace.getKeys(), "text", text(trace));
        }
        producer.shutdown();
        consumer.shutdown();
    }

    private static String text(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }
}
