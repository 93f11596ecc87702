import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Consumers that fail, and what becomes of their messages. */
final class RetryStories {
    static final Map<String, Scenario.Story> TABLE = new LinkedHashMap<>();

    static {
        TABLE.put("Retry", RetryStories::retry);
        TABLE.put("Dead", RetryStories::dead);
        TABLE.put("SentBack", RetryStories::sentBack);
        TABLE.put("Orderly", RetryStories::orderly);
        TABLE.put("OrderlyDead", RetryStories::orderlyDead);
    }

    private RetryStories() {
    }

    private static String body(MessageExt message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    /** Message i fails i times. */
    private static void retry(Scenario self) throws Exception {
        String topic = self.topic(2);
        CountDownLatch wanted = new CountDownLatch(4);
        DefaultMQPushConsumer consumer = self.pushConsumer("Retry-takers");
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            self.said("tried", message);
            int wished = Integer.parseInt(body(message).split("-")[1]);
            if (message.getReconsumeTimes() < wished) {
                return ConsumeConcurrentlyStatus.RECONSUME_LATER;
            }
            wanted.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        self.send(topic, 4);
        Scenario.await("successes", wanted);
    }

    private static void dead(Scenario self) throws Exception {
        String topic = self.topic(1);
        DefaultMQPushConsumer consumer = self.pushConsumer("Dead-takers");
        consumer.setMaxReconsumeTimes(2);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            self.said("tried", messages.get(0));
            return ConsumeConcurrentlyStatus.RECONSUME_LATER;
        });
        consumer.start();
        self.send(topic, 1);
        self.tellAll("%DLQ%Dead-takers", 1);
    }

    /** A message is handed back by hand, for a delay of the consumer's choice. */
    private static void sentBack(Scenario self) throws Exception {
        String topic = self.topic(1);
        CountDownLatch wanted = new CountDownLatch(2);
        DefaultMQPushConsumer consumer = self.pushConsumer("SentBack-takers");
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            MessageExt message = messages.get(0);
            self.said("tried", message);
            if (message.getReconsumeTimes() == 0) {
                try {
                    consumer.sendMessageBack(message, 2);
                } catch (Exception error) {
                    self.say("error", error.toString());
                }
            }
            wanted.countDown();
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        self.send(topic, 1);
        Scenario.await("the second time", wanted);
    }

    private static int fails(Map<String, Integer> seen, MessageExt message) {
        synchronized (seen) {
            return seen.merge(body(message), 1, Integer::sum) - 1;
        }
    }

    /** Messages ending in 3 fail twice; the queue waits for them. One member leaves on the way. */
    private static void orderly(Scenario self) throws Exception {
        String topic = self.topic(4);
        int queueCount = self.queues(topic).size();
        CountDownLatch first = new CountDownLatch(40);
        CountDownLatch second = new CountDownLatch(80);
        Map<String, Integer> seen = new HashMap<>();
        List<DefaultMQPushConsumer> members = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            String event = "member-" + number;
            DefaultMQPushConsumer consumer = self.pushConsumer("Orderly-takers");
            consumer.setSuspendCurrentQueueTimeMillis(50);
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                MessageExt message = messages.get(0);
                int times = fails(seen, message);
                boolean good = !body(message).endsWith("3") || times >= 2;
                self.say("event", event, "body", body(message), "ok", good,
                    "broker", message.getBrokerName(), "queue", message.getQueueId(),
                    "offset", message.getQueueOffset(), "times", message.getReconsumeTimes());
                if (!good) {
                    return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
                }
                first.countDown();
                second.countDown();
                return ConsumeOrderlyStatus.SUCCESS;
            });
            consumer.start();
            members.add(consumer);
        }
        GroupStories.awaitShares(self, members, topic, queueCount / 2);
        self.send(topic, 0, 40);
        Scenario.await("the first half", first);
        members.remove(0).shutdown();
        GroupStories.awaitShares(self, members, topic, queueCount);
        self.send(topic, 40, 80);
        Scenario.await("the second half", second);
    }

    /** What fails too often leaves its queue, which goes on. */
    private static void orderlyDead(Scenario self) throws Exception {
        String topic = self.topic(1);
        MessageQueue queue = self.queues(topic).get(0);
        for (int i = 0; i < 5; i++) {
            self.producer().send(Scenario.message(topic, null, "dead-" + i), queue);
        }
        CountDownLatch wanted = new CountDownLatch(4);
        DefaultMQPushConsumer consumer = self.pushConsumer("OrderlyDead-takers");
        consumer.setSuspendCurrentQueueTimeMillis(50);
        consumer.setMaxReconsumeTimes(2);
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
            MessageExt message = messages.get(0);
            self.said("tried", message);
            if (body(message).equals("dead-2")) {
                return ConsumeOrderlyStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT;
            }
            wanted.countDown();
            return ConsumeOrderlyStatus.SUCCESS;
        });
        consumer.start();
        Scenario.await("the others", wanted);
        self.tellAll("%DLQ%OrderlyDead-takers", 1);
    }
}
