import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.client.ClientConfig;
import org.apache.rocketmq.client.consumer.AllocateMessageQueueStrategy;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMachineRoomNearby;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragely;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueAveragelyByCircle;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByConfig;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueByMachineRoom;
import org.apache.rocketmq.client.consumer.rebalance.AllocateMessageQueueConsistentHash;
import org.apache.rocketmq.client.consumer.store.LocalFileOffsetStore;
import org.apache.rocketmq.client.consumer.store.ReadOffsetType;
import org.apache.rocketmq.client.impl.factory.MQClientInstance;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.selector.SelectMessageQueueByHash;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.message.MessageClientIDSetter;

/** What Apache's client classes say: one question per line of the file given, one answer per line. */
public final class ClientOracle {
    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Paths.get(args[0]))) {
            JSONObject question = JSON.parseObject(line);
            switch (question.getString("ask")) {
                case "allocate":
                    allocate(question);
                    break;
                case "hash":
                    hash(question.get("key"), question.getIntValue("queues"));
                    break;
                case "defaults":
                    defaults(question.getString("class"));
                    break;
                case "client_id":
                    clientId(question);
                    break;
                case "unique_key":
                    uniqueKey(question.getString("key"));
                    break;
                default:
                    offsets(question);
            }
        }
        System.exit(0);
    }

    private static void allocate(JSONObject question) {
        List<MessageQueue> queues = queues(question.getJSONArray("queues"));
        List<String> clients = question.getJSONArray("clients").toJavaList(String.class);
        Collections.sort(queues);
        Collections.sort(clients);
        AllocateMessageQueueStrategy strategy = strategy(question.getJSONObject("strategy"));
        List<Object> answers = new ArrayList<>();
        for (Object client : question.getJSONArray("members")) {
            List<Object> indexes = new ArrayList<>();
            for (MessageQueue mine
                : strategy.allocate("group", (String) client, queues, clients)) {
                indexes.add(List.of(mine.getTopic(), mine.getBrokerName(), mine.getQueueId()));
            }
            answers.add(indexes);
        }
        Line.print("name", strategy.getName(), "queues", answers);
    }

    private static AllocateMessageQueueStrategy strategy(JSONObject wanted) {
        switch (wanted.getString("kind")) {
            case "AVG":
                return new AllocateMessageQueueAveragely();
            case "AVG_BY_CIRCLE":
                return new AllocateMessageQueueAveragelyByCircle();
            case "CONSISTENT_HASH":
                return new AllocateMessageQueueConsistentHash(wanted.getIntValue("nodes"));
            case "CONFIG":
                AllocateMessageQueueByConfig config = new AllocateMessageQueueByConfig();
                config.setMessageQueueList(queues(wanted.getJSONArray("queues")));
                return config;
            case "MACHINE_ROOM":
                AllocateMessageQueueByMachineRoom room = new AllocateMessageQueueByMachineRoom();
                room.setConsumeridcs(
                    new HashSet<>(wanted.getJSONArray("rooms").toJavaList(String.class)));
                return room;
            default:
                return new AllocateMachineRoomNearby(strategy(wanted.getJSONObject("inner")),
                    new AllocateMachineRoomNearby.MachineRoomResolver() {
                        @Override
                        public String brokerDeployIn(MessageQueue queue) {
                            return queue.getBrokerName().split("@")[0];
                        }

                        @Override
                        public String consumerDeployIn(String client) {
                            return client.split("@")[0];
                        }
                    });
        }
    }

    private static List<MessageQueue> queues(JSONArray triples) {
        List<MessageQueue> queues = new ArrayList<>();
        for (int i = 0; i < triples.size(); i++) {
            JSONArray triple = triples.getJSONArray(i);
            queues.add(new MessageQueue(triple.getString(0), triple.getString(1),
                triple.getIntValue(2)));
        }
        return queues;
    }

    private static void hash(Object key, int count) {
        List<MessageQueue> queues = new ArrayList<>();
        for (int i = 0; i < count; i++) {
            queues.add(new MessageQueue("topic", "broker", i));
        }
        MessageQueue chosen = new SelectMessageQueueByHash().select(queues, null, key);
        Line.print("queue", chosen.getQueueId());
    }

    /** The fields of a new object, where one is a number, a truth or a name. */
    private static void defaults(String name) throws Exception {
        Object made;
        switch (name) {
            case "ClientConfig":
                made = new ClientConfig();
                break;
            case "DefaultMQProducer":
                made = new DefaultMQProducer("group");
                break;
            case "TransactionMQProducer":
                made = new TransactionMQProducer("group");
                break;
            case "DefaultMQPushConsumer":
                made = new DefaultMQPushConsumer("group");
                break;
            default:
                made = new DefaultLitePullConsumer("group");
        }
        Map<String, Object> found = new TreeMap<>();
        for (Class<?> kind = made.getClass(); kind != Object.class; kind = kind.getSuperclass()) {
            for (Field field : kind.getDeclaredFields()) {
                Class<?> type = field.getType();
                // Not what is of the machine or of the moment.
                if (Modifier.isStatic(field.getModifiers())
                    || !(type.isPrimitive() || type.isEnum() || type == String.class)
                    || List.of("clientIP", "clientCallbackExecutorThreads", "namesrvAddr",
                        "consumeTimestamp").contains(field.getName())) {
                    continue;
                }
                field.setAccessible(true);
                found.put(field.getName(), field.get(made));
            }
        }
        if (made instanceof DefaultMQProducer) {
            found.put("retryResponseCodes",
                new java.util.TreeSet<>(((DefaultMQProducer) made).getRetryResponseCodes()));
        }
        Line.print("values", found);
    }

    private static void clientId(JSONObject question) {
        ClientConfig config = new ClientConfig();
        config.setClientIP(question.getString("ip"));
        config.setInstanceName(question.getString("instance"));
        config.setUnitName(question.getString("unit"));
        config.setEnableStreamRequestType(question.getBooleanValue("stream"));
        Line.print("id", config.buildMQClientId());
    }

    private static void uniqueKey(String key) {
        Line.print("ip", MessageClientIDSetter.getIPStrFromID(key),
            "pid", MessageClientIDSetter.getPidFromID(key),
            "timeMs", MessageClientIDSetter.getNearlyTimeFromID(key).getTime(),
            "length", MessageClientIDSetter.createUniqID().length());
    }

    /** Reads the offsets file of a client and group, sets some of it, and writes it. */
    private static void offsets(JSONObject question) throws Exception {
        MQClientInstance instance =
            new MQClientInstance(new ClientConfig(), 0, question.getString("client"));
        LocalFileOffsetStore store =
            new LocalFileOffsetStore(instance, question.getString("group"));
        store.load();
        List<Object> found = new ArrayList<>();
        HashSet<MessageQueue> changed = new HashSet<>();
        for (MessageQueue queue : queues(question.getJSONArray("queues"))) {
            found.add(store.readOffset(queue, ReadOffsetType.READ_FROM_STORE));
            store.updateOffset(queue, question.getLongValue("set"), false);
            changed.add(queue);
        }
        store.persistAll(changed);
        Line.print("offsets", found);
    }
}
