import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Runs stories about Apache's client, all at once: namesrv name... Each has a topic and groups of
 * its own, named after it. Prints JSON lines {"scenario":name, ...}, and one with "error" if the
 * story ended with an exception.
 */
final class Scenario {
    /** One story. */
    interface Story {
        void tell(Scenario self) throws Exception;
    }

    static final int WAIT_MS = 60_000;
    private static final int POLL_MS = 20;
    private static final long BEGUN_NS = System.nanoTime();
    private static final AtomicInteger CLIENTS = new AtomicInteger();

    final String name;
    private final String namesrv;
    private final List<Runnable> closers = new ArrayList<>();
    private DefaultMQProducer producer;
    private DefaultMQPullConsumer reader;

    private Scenario(String namesrv, String name) {
        this.namesrv = namesrv;
        this.name = name;
    }

    public static void main(String[] args) throws Exception {
        // The client looks at its share of the queues every 20 s; a test does not wait for that.
        System.setProperty("rocketmq.client.rebalance.waitInterval", "500");
        Map<String, Story> stories = new LinkedHashMap<>();
        stories.putAll(SendStories.TABLE);
        stories.putAll(PushStories.TABLE);
        stories.putAll(PullStories.TABLE);
        stories.putAll(RetryStories.TABLE);
        stories.putAll(GroupStories.TABLE);
        stories.putAll(TransactionStories.TABLE);
        stories.putAll(QueryStories.TABLE);
        List<String> names = Arrays.asList(args).subList(1, args.length);
        CountDownLatch ended = new CountDownLatch(names.size());
        for (String name : names) {
            Story story = stories.get(name);
            new Thread(() -> {
                new Scenario(args[0], name).run(story);
                ended.countDown();
            }, name).start();
        }
        ended.await();
        System.exit(0);
    }

    private void run(Story story) {
        try {
            story.tell(this);
        } catch (Throwable error) {
            StringWriter text = new StringWriter();
            error.printStackTrace(new PrintWriter(text));
            say("error", text.toString());
        } finally {
            closers.forEach(Runnable::run);
        }
    }

    void say(Object... namesAndValues) {
        long atMs = (System.nanoTime() - BEGUN_NS) / 1_000_000;
        Object[] all = new Object[namesAndValues.length + 4];
        System.arraycopy(new Object[] {"scenario", name, "atMs", atMs}, 0, all, 0, 4);
        System.arraycopy(namesAndValues, 0, all, 4, namesAndValues.length);
        Line.print(all);
    }

    void said(String event, SendResult result) {
        say("event", event, "status", result.getSendStatus().name(), "msgId", result.getMsgId(),
            "offsetMsgId", result.getOffsetMsgId(),
            "broker", result.getMessageQueue().getBrokerName(),
            "queue", result.getMessageQueue().getQueueId(), "offset", result.getQueueOffset());
    }

    void said(String event, MessageExt message) {
        byte[] body = message.getBody();
        say("event", event, "topic", message.getTopic(), "tags", message.getTags(),
            "body", body.length > 200 ? null : new String(body, StandardCharsets.UTF_8),
            "size", body.length, "hash", Arrays.hashCode(body),
            "keys", message.getKeys(), "msgId", message.getMsgId(),
            "broker", message.getBrokerName(), "queue", message.getQueueId(),
            "offset", message.getQueueOffset(), "times", message.getReconsumeTimes(),
            "bornMs", message.getBornTimestamp(), "storedMs", message.getStoreTimestamp(),
            "storeSize", message.getStoreSize(), "sysFlag", message.getSysFlag(),
            "properties", new TreeMap<>(message.getProperties()));
    }

    // Clients ------------------------------------------------------------------------------------

    <C extends ClientConfig> C quick(C client) {
        client.setNamesrvAddr(namesrv);
        client.setMqClientApiTimeout(Patience.API_MS);
        client.setPollNameServerInterval(500);
        client.setHeartbeatBrokerInterval(1000);
        client.setPersistConsumerOffsetInterval(500);
        client.setInstanceName(name + "-" + CLIENTS.incrementAndGet());
        return client;
    }

    /** A client to be ended with the story. */
    <C> C owned(C client, Runnable shutdown) {
        synchronized (closers) {
            closers.add(0, shutdown);
        }
        return client;
    }

    synchronized DefaultMQProducer producer() throws MQClientException {
        if (producer == null) {
            producer = quick(new DefaultMQProducer(name + "-makers"));
            producer.setSendMsgTimeout(10_000);
            producer.start();
            owned(producer, producer::shutdown);
        }
        return producer;
    }

    synchronized DefaultMQPullConsumer reader() throws MQClientException {
        if (reader == null) {
            reader = quick(new DefaultMQPullConsumer(name + "-reader"));
            reader.start();
            owned(reader, reader::shutdown);
        }
        return reader;
    }

    DefaultMQPushConsumer pushConsumer(String group) {
        DefaultMQPushConsumer consumer = quick(new DefaultMQPushConsumer(group));
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        return owned(consumer, consumer::shutdown);
    }

    // Topics and messages ------------------------------------------------------------------------

    /** Makes the topic of this name, with so many queues a broker, and waits for its route. */
    String topic(int queues) throws Exception {
        return topic(name, queues);
    }

    String topic(String topic, int queues) throws Exception {
        producer().createTopic("TBW102", topic, queues);
        awaitRoute(topic, queues);
        return topic;
    }

    void awaitRoute(String topic, int queues) throws Exception {
        await("a route of " + topic, () -> {
            try {
                return producer().fetchPublishMessageQueues(topic).size() >= queues;
            } catch (MQClientException noRouteYet) {
                return false;
            }
        });
    }

    List<MessageQueue> queues(String topic) throws Exception {
        return producer().fetchPublishMessageQueues(topic);
    }

    static Message message(String topic, String tags, String body) {
        return new Message(topic, tags, body.getBytes(StandardCharsets.UTF_8));
    }

    /** Sends bodies name-0, name-1 and so on, over the queues in turn. */
    void send(String topic, int count) throws Exception {
        send(topic, 0, count);
    }

    void send(String topic, int begin, int end) throws Exception {
        List<MessageQueue> queues = queues(topic);
        for (int i = begin; i < end; i++) {
            producer().send(message(topic, null, name + "-" + i), queues.get(i % queues.size()));
        }
    }

    /** Every message of a topic, queue by queue, once there are so many. */
    List<MessageExt> read(String topic, int count) throws Exception {
        List<MessageExt> found = new ArrayList<>();
        await(count + " messages in " + topic, () -> {
            found.clear();
            found.addAll(readNow(topic));
            return found.size() >= count;
        });
        return found;
    }

    private List<MessageExt> readNow(String topic) throws Exception {
        List<MessageExt> found = new ArrayList<>();
        List<MessageQueue> queues;
        try {
            queues = new ArrayList<>(reader().fetchSubscribeMessageQueues(topic));
        } catch (MQClientException noRouteYet) {
            return found;
        }
        queues.sort(null);
        for (MessageQueue queue : queues) {
            long offset = reader().minOffset(queue);
            long end = reader().maxOffset(queue);
            while (offset < end) {
                PullResult pulled = reader().pull(queue, "*", offset, 32, 10_000);
                if (pulled.getMsgFoundList() != null) {
                    found.addAll(pulled.getMsgFoundList());
                }
                if (pulled.getNextBeginOffset() <= offset) {
                    throw new IllegalStateException(queue + " at " + offset + ": " + pulled);
                }
                offset = pulled.getNextBeginOffset();
            }
        }
        return found;
    }

    /** Reads a topic and tells of each message. */
    void tellAll(String topic, int count) throws Exception {
        for (MessageExt message : read(topic, count)) {
            said("stored", message);
        }
    }

    // Waiting ------------------------------------------------------------------------------------

    static void await(String what, Callable<Boolean> isSo) throws Exception {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(WAIT_MS);
        while (!isSo.call()) {
            if (System.nanoTime() > deadline) {
                throw new IllegalStateException("waited in vain for " + what);
            }
            Thread.sleep(POLL_MS);
        }
    }

    static void await(String what, CountDownLatch latch) throws Exception {
        if (!latch.await(WAIT_MS, TimeUnit.MILLISECONDS)) {
            throw new IllegalStateException(
                "waited in vain for " + what + ", " + latch.getCount() + " are missing");
        }
    }
}
