import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** The two consumers that ask: pull and lite pull. */
final class PullStories {
    /** With a the number of the message, half of it as a decimal, and properties not all have. */
    private static final String[] EXPRESSIONS = {
        "a > 5", "a >= 5 AND a < 7", "a BETWEEN 2 AND 4", "a NOT BETWEEN 2 AND 8", "a <> 0",
        "half > 3.5", "half > 3", "colour = 'red'", "colour = 'red' AND a <> 0",
        "colour IN ('red', 'blue')", "colour IN ('red')", "colour NOT IN ('red', 'blue')",
        "TAGS = 'even'", "big IS NULL", "big IS NOT NULL", "big = TRUE",
        "big <> FALSE", "big", "NOT big = TRUE", "NOT (a > 5)",
        "colour = 'red' OR big = TRUE", "(a = 1 OR a = 2) AND colour <> 'red'",
        "a = '3'", "3 < a AND a <= 4", "-a < -8", "a = 1e0", "absent = 1 OR a = 1", "absent <> 1",
        "a > colour", "TRUE", "a = 3 = TRUE", "'red' = colour", "5 < 3",
    };
    static final Map<String, Scenario.Story> TABLE = new LinkedHashMap<>();

    static {
        TABLE.put("Pull", PullStories::pull);
        TABLE.put("PullBlocks", PullStories::pullBlocks);
        TABLE.put("PullSql", PullStories::pullSql);
        TABLE.put("LiteSubscribe", PullStories::liteSubscribe);
        TABLE.put("LiteAssign", PullStories::liteAssign);
    }

    private PullStories() {
    }

    private static void told(Scenario self, String event, PullResult result) {
        self.say("event", event, "status", result.getPullStatus().name(),
            "next", result.getNextBeginOffset(), "min", result.getMinOffset(),
            "max", result.getMaxOffset(),
            "count", result.getMsgFoundList() == null ? 0 : result.getMsgFoundList().size());
    }

    private static void pull(Scenario self) throws Exception {
        String topic = self.topic(1);
        MessageQueue queue = self.queues(topic).get(0);
        for (int i = 0; i < 40; i++) {
            self.producer().send(
                Scenario.message(topic, i < 20 ? "low" : "high", "pull-" + i), queue);
        }
        DefaultMQPullConsumer consumer = self.reader();
        Scenario.await("the queue", () -> consumer.maxOffset(queue) == 40);
        told(self, "first", consumer.pull(queue, "*", 0, 10));
        told(self, "most", consumer.pull(queue, "*", 0, 100));
        told(self, "tag", consumer.pull(queue, "high", 10, 32));
        told(self, "unmatched", consumer.pull(queue, "none", 0, 32));
        told(self, "end", consumer.pull(queue, "*", 40, 32));
        told(self, "beyond", consumer.pull(queue, "*", 50, 32));
        told(self, "sql", pullBySql(consumer, queue, "TAGS = 'high'", 10));
        self.say("event", "bounds", "min", consumer.minOffset(queue),
            "max", consumer.maxOffset(queue),
            "past", consumer.searchOffset(queue, 1000L),
            "future", consumer.searchOffset(queue, System.currentTimeMillis() + 60_000),
            "earliest", consumer.earliestMsgStoreTime(queue));
        self.say("event", "offset", "committed", consumer.fetchConsumeOffset(queue, true));
        consumer.updateConsumeOffset(queue, 17);
        consumer.persist(queue);
        Scenario.await("the offset", () -> consumer.fetchConsumeOffset(queue, true) == 17);
        self.say("event", "offset", "committed", consumer.fetchConsumeOffset(queue, true));
    }

    /** The client refuses until an answer to its heartbeat has told it the broker's version. */
    private static PullResult pullBySql(DefaultMQPullConsumer consumer, MessageQueue queue,
        String expression, long offset) throws Exception {
        PullResult[] result = {null};
        Scenario.await("the broker's version", () -> {
            try {
                result[0] = consumer.pull(queue, MessageSelector.bySql(expression), offset, 32);
            } catch (MQClientException tooEarly) {
                return false;
            }
            return true;
        });
        return result[0];
    }

    /** A long poll is answered by the arrival of a message, not by its deadline of 20 s. */
    private static void pullBlocks(Scenario self) throws Exception {
        String topic = self.topic(1);
        MessageQueue queue = self.queues(topic).get(0);
        DefaultMQPullConsumer consumer = self.reader();
        consumer.pull(queue, "*", 0, 32);  // the connection is there from now on
        Thread sender = new Thread(() -> {
            try {
                Thread.sleep(500);
                self.producer().send(Scenario.message(topic, "other", "passed over"), queue);
                self.producer().send(Scenario.message(topic, "mine", "wakes"), queue);
            } catch (Exception error) {
                self.say("error", error.toString());
            }
        });
        long begun = System.nanoTime();
        sender.start();
        PullResult result = consumer.pullBlockIfNotFound(queue, "mine", 0, 32);
        if (result.getMsgFoundList() == null) {
            result = consumer.pullBlockIfNotFound(queue, "mine", result.getNextBeginOffset(), 32);
        }
        told(self, "woken", result);
        self.say("event", "waited", "ms", (System.nanoTime() - begun) / 1_000_000);
        self.said("pulled", result.getMsgFoundList().get(0));
        sender.join();
    }

    private static DefaultLitePullConsumer lite(Scenario self, String group) {
        DefaultLitePullConsumer consumer = self.quick(new DefaultLitePullConsumer(group));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        return self.owned(consumer, consumer::shutdown);
    }

    private static void take(Scenario self, String event, DefaultLitePullConsumer consumer,
        int count) throws Exception {
        int[] taken = {0};
        Scenario.await(count + " messages", () -> {
            for (MessageExt message : consumer.poll(500)) {
                self.said(event, message);
                taken[0]++;
            }
            return taken[0] >= count;
        });
    }

    private static void pullSql(Scenario self) throws Exception {
        String topic = self.topic(1);
        MessageQueue queue = self.queues(topic).get(0);
        for (int i = 0; i < 10; i++) {
            Message message = Scenario.message(topic, i % 2 == 0 ? "even" : "odd", "" + i);
            message.putUserProperty("a", String.valueOf(i));
            message.putUserProperty("half", String.valueOf(i / 2.0));
            message.putUserProperty("colour", i % 3 == 0 ? "red" : i % 3 == 1 ? "blue" : "grey");
            if (i >= 8) {
                message.putUserProperty("big", "true");
            }
            self.producer().send(message, queue);
        }
        Scenario.await("the queue", () -> self.reader().maxOffset(queue) == 10);
        pullBySql(self.reader(), queue, "a = 1", 0);
        for (String expression : EXPRESSIONS) {
            PullResult pulled =
                self.reader().pull(queue, MessageSelector.bySql(expression), 0, 32);
            StringBuilder found = new StringBuilder();
            if (pulled.getMsgFoundList() != null) {
                for (MessageExt message : pulled.getMsgFoundList()) {
                    found.append(new String(message.getBody(), StandardCharsets.UTF_8));
                }
            }
            self.say("event", "pulled", "expression", expression, "found", found.toString());
        }
    }

    private static void liteSubscribe(Scenario self) throws Exception {
        String topic = self.topic(2);
        self.send(topic, 20);
        DefaultLitePullConsumer first = lite(self, "LiteSubscribe-takers");
        first.subscribe(topic, "*");
        first.start();
        take(self, "first", first, 20);
        first.commitSync();
        Scenario.await("commit", () -> {
            long sum = 0;
            for (MessageQueue queue : self.queues(topic)) {
                sum += Math.max(0, first.committed(queue));
            }
            return sum == 20;
        });
        first.shutdown();
        self.send(topic, 10);
        DefaultLitePullConsumer second = lite(self, "LiteSubscribe-takers");
        second.subscribe(topic, "*");
        second.start();
        take(self, "second", second, 10);
    }

    private static void liteAssign(Scenario self) throws Exception {
        String topic = self.topic(1);
        MessageQueue only = self.queues(topic).get(0);
        for (int i = 0; i < 10; i++) {
            self.producer().send(Scenario.message(topic, null, "lite-" + i), only);
        }
        long between = System.currentTimeMillis() + 500;
        Thread.sleep(1000);
        for (int i = 10; i < 20; i++) {
            self.producer().send(Scenario.message(topic, null, "lite-" + i), only);
        }
        DefaultLitePullConsumer consumer = lite(self, "LiteAssign-takers");
        consumer.start();
        Collection<MessageQueue> queues = consumer.fetchMessageQueues(topic);
        MessageQueue queue = queues.stream().filter(
            one -> one.getBrokerName().equals(only.getBrokerName())).findFirst().get();
        consumer.assign(Arrays.asList(queue));
        // This client forgets a seek when a fetch before it is about to bring something.
        int[] polled = {0};
        Scenario.await("all of them", () -> {
            polled[0] += consumer.poll(500).size();
            return polled[0] >= 20;
        });
        consumer.seek(queue, 15);
        take(self, "from 15", consumer, 5);
        consumer.seekToBegin(queue);
        take(self, "from begin", consumer, 20);
        consumer.seek(queue, consumer.offsetForTimestamp(queue, between));
        self.say("event", "by time", "offset", consumer.offsetForTimestamp(queue, between));
        consumer.seekToEnd(queue);
        // After a seek the next poll sees nothing of what was fetched before it.
        List<MessageExt> none = consumer.poll(1000);
        self.say("event", "at end", "count", none.size());
        self.producer().send(Scenario.message(topic, null, "lite-20"), only);
        take(self, "after end", consumer, 1);
        consumer.commitSync();
        Scenario.await("commit", () -> consumer.committed(queue) == 21);
        self.say("event", "committed", "offset", consumer.committed(queue));
    }
}
