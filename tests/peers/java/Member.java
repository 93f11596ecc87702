import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * A member of groups, told by lines on stdin what to do; the words of a line are split by tabs.
 *
 * <p>join topic group strategy parameter orderly|concurrently sleepMs; share group; leave group. The
 * strategies are AVG, CIRCLE, HASH, CONFIG (the parameter is broker/id,broker/id) and ROOM (the
 * parameter is its name). Prints an answer to each line, and a line per message.
 */
public final class Member {
    private static final Map<String, DefaultMQPushConsumer> CONSUMERS = new HashMap<>();

    public static void main(String[] args) throws Exception {
        BufferedReader lines = new BufferedReader(
            new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Line.print("event", "started");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split("\t", -1);
            if (words[0].equals("join")) {
                join(args[0], words);
            } else if (words[0].equals("share")) {
                share(words[1]);
            } else {
                CONSUMERS.remove(words[1]).shutdown();
                Line.print("event", "left");
            }
        }
        for (DefaultMQPushConsumer consumer : CONSUMERS.values()) {
            consumer.shutdown();
        }
        System.exit(0);
    }

    private static void join(String namesrv, String[] words) throws Exception {
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(words[2]);
        consumer.setNamesrvAddr(namesrv);
        consumer.setMqClientApiTimeout(Patience.API_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(1000);
        consumer.setAllocateMessageQueueStrategy(strategy(words[1], words[3], words[4]));
        consumer.subscribe(words[1], "*");
        long sleep = Long.parseLong(words[6]);
        if (words[5].equals("orderly")) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                tell(words[2], messages, sleep);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                tell(words[2], messages, sleep);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
        consumer.start();
        CONSUMERS.put(words[2], consumer);
        Line.print("event", "joined", "client", consumer.buildMQClientId());
    }

    private static AllocateMessageQueueStrategy strategy(String topic, String name, String given) {
        switch (name) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "HASH":
                return new AllocateMessageQueueConsistentHash();
            case "CONFIG":
                AllocateMessageQueueByConfig config = new AllocateMessageQueueByConfig();
                List<MessageQueue> queues = new ArrayList<>();
                for (String place : given.split(",")) {
                    String[] parts = place.split("/");
                    queues.add(new MessageQueue(topic, parts[0], Integer.parseInt(parts[1])));
                }
                config.setMessageQueueList(queues);
                return config;
            case "ROOM":
                AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
                room.setConsumeridcs(new HashSet<>(Arrays.asList(given)));
                return room;
            default:
                throw new IllegalArgumentException(name);
        }
    }

    private static void share(String group) {
        DefaultMQPushConsumer consumer = CONSUMERS.get(group);
        Set<String> share = new TreeSet<>();
        for (MessageQueue queue : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl()
            .getProcessQueueTable().keySet()) {
            if (!queue.getTopic().startsWith("%RETRY%")) {
                share.add(queue.getBrokerName() + "/" + queue.getQueueId());
            }
        }
        Line.print("event", "share", "queues", share);
    }

    private static void tell(String group, List<MessageExt> messages, long sleep) {
        for (MessageExt message : messages) {
            long begun = System.currentTimeMillis();
            try {
                Thread.sleep(sleep);
            } catch (InterruptedException error) {
                Thread.currentThread().interrupt();
            }
            Line.print("event", "message", "group", group, "broker", message.getBrokerName(),
                "queue", message.getQueueId(), "offset", message.getQueueOffset(), "body",
                new String(message.getBody(), StandardCharsets.UTF_8), "begun", begun, "ended",
                System.currentTimeMillis());
        }
    }
}
