import com.alibaba.fastjson.serializer.SerializerFeature;
import java.lang.reflect.Field;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentMap;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.common.DataVersion;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.TopicFilterType;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.filter.FilterAPI;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.protocol.body.CheckClientRequestBody;
import org.apache.rocketmq.common.protocol.body.ClusterInfo;
import org.apache.rocketmq.common.protocol.body.ConsumerOffsetSerializeWrapper;
import org.apache.rocketmq.common.protocol.body.KVTable;
import org.apache.rocketmq.common.protocol.body.LockBatchRequestBody;
import org.apache.rocketmq.common.protocol.body.LockBatchResponseBody;
import org.apache.rocketmq.common.protocol.body.SubscriptionGroupWrapper;
import org.apache.rocketmq.common.protocol.body.TopicConfigSerializeWrapper;
import org.apache.rocketmq.common.protocol.body.TopicList;
import org.apache.rocketmq.common.protocol.body.UnlockBatchRequestBody;
import org.apache.rocketmq.common.protocol.header.GetConsumerListByGroupResponseBody;
import org.apache.rocketmq.common.protocol.heartbeat.ConsumeType;
import org.apache.rocketmq.common.protocol.heartbeat.ConsumerData;
import org.apache.rocketmq.common.protocol.heartbeat.HeartbeatData;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.common.protocol.heartbeat.ProducerData;
import org.apache.rocketmq.common.protocol.heartbeat.SubscriptionData;
import org.apache.rocketmq.common.protocol.route.BrokerData;
import org.apache.rocketmq.common.protocol.route.QueueData;
import org.apache.rocketmq.common.protocol.route.TopicRouteData;
import org.apache.rocketmq.common.subscription.SubscriptionGroupConfig;
import org.apache.rocketmq.namesrv.kvconfig.KVConfigSerializeWrapper;
import org.apache.rocketmq.remoting.protocol.RemotingSerializable;
import org.apache.rocketmq.store.schedule.DelayOffsetSerializeWrapper;

/** JSON bodies as Apache's servers and clients write them; those of admin in GoldenAdminBodies. */
final class GoldenBodies {
    private static final GoldenFile FILE = new GoldenFile();
    private static final long TIME = 1_700_000_000_000L;

    private GoldenBodies() {
    }

    static GoldenFile record() throws Exception {
        routes();
        tables();
        clients();
        locks();
        GoldenAdminBodies.record(FILE);
        return FILE;
    }

    static void add(GoldenFile file, String name, Object body) throws Exception {
        file.text(name, RemotingSerializable.toJson(body, false), GoldenFile.plain(body));
    }

    /** Sets fields by name, in turn, whatever their setters are called. */
    static <T> T fill(T object, Object... namesAndValues) throws Exception {
        for (int i = 0; i < namesAndValues.length; i += 2) {
            Field field = object.getClass().getDeclaredField((String) namesAndValues[i]);
            field.setAccessible(true);
            field.set(object, namesAndValues[i + 1]);
        }
        return object;
    }

    static <K, V> HashMap<K, V> map(K key, V value) {
        HashMap<K, V> map = new HashMap<>();
        map.put(key, value);
        return map;
    }

    static <K, V> ConcurrentMap<K, V> concurrent(K key, V value) {
        return new ConcurrentHashMap<>(map(key, value));
    }

    static DataVersion version() throws Exception {
        return fill(new DataVersion(), "timestamp", TIME, "counter", new AtomicLong(7));
    }

    static SubscriptionData subscription(String topic, String expression, String type)
        throws Exception {
        SubscriptionData data = FilterAPI.build(topic, expression, type);
        data.setSubVersion(TIME);
        return data;
    }

    static HeartbeatData heartbeat() {
        try {
            ConsumerData consumer = fill(new ConsumerData(), "groupName", "group_a",
                "consumeType", ConsumeType.CONSUME_PASSIVELY,
                "messageModel", MessageModel.CLUSTERING,
                "consumeFromWhere", ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET);
            consumer.getSubscriptionDataSet().add(subscription("TopicTest", "red || blue", "TAG"));
            HeartbeatData beat = new HeartbeatData();
            beat.setClientID("10.0.0.5@4242#1");
            beat.getConsumerDataSet().add(consumer);
            beat.getProducerDataSet().add(fill(new ProducerData(), "groupName", "producer_a"));
            return beat;
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    private static BrokerData broker() {
        HashMap<Long, String> addresses = map(0L, "10.0.0.1:10911");
        addresses.put(1L, "10.0.0.2:10911");
        return new BrokerData("DefaultCluster", "broker-a", addresses);
    }

    private static TopicRouteData route() throws Exception {
        QueueData queue = fill(new QueueData(), "brokerName", "broker-a", "readQueueNums", 4,
            "writeQueueNums", 8, "perm", 6, "topicSysFlag", 0);
        return fill(new TopicRouteData(), "queueDatas", Arrays.asList(queue),
            "brokerDatas", Arrays.asList(broker()), "filterServerTable", new HashMap<>());
    }

    private static void routes() throws Exception {
        TopicRouteData ordered = route();
        ordered.setOrderTopicConf("broker-a:4");
        ordered.setFilterServerTable(map("10.0.0.1:10911", Arrays.asList("10.0.0.1:30000")));
        for (Map.Entry<String, TopicRouteData> entry : new TreeMap<>(Map.of("TopicRouteData",
            route(), "TopicRouteData/ordered", ordered, "TopicRouteData/empty",
            new TopicRouteData())).entrySet()) {
            add(FILE, entry.getKey(), entry.getValue());
            byte[] standard = entry.getValue().encode(SerializerFeature.BrowserCompatible,
                SerializerFeature.QuoteFieldNames, SerializerFeature.SkipTransientField,
                SerializerFeature.MapSortField);
            FILE.text(entry.getKey() + "/standard", new String(standard, "UTF-8"),
                GoldenFile.plain(entry.getValue()));
        }
        add(FILE, "ClusterInfo", fill(new ClusterInfo(),
            "brokerAddrTable", map("broker-a", broker()),
            "clusterAddrTable", map("DefaultCluster", Collections.singleton("broker-a"))));
        add(FILE, "ClusterInfo/null", new ClusterInfo());
        add(FILE, "TopicList", fill(new TopicList(),
            "topicList", new LinkedHashSet<>(Arrays.asList("TopicA", "TopicB"))));
        add(FILE, "TopicList/brokerAddr", fill(new TopicList(), "topicList", new HashSet<>(),
            "brokerAddr", "10.0.0.1:10911"));
        add(FILE, "KVTable", fill(new KVTable(), "table", map("TopicA", "broker-a:4")));
        add(FILE, "KVTable/empty", new KVTable());
        add(FILE, "KVConfigSerializeWrapper", fill(new KVConfigSerializeWrapper(), "configTable",
            map("ORDER_TOPIC_CONFIG", map("TopicA", "broker-a:4"))));
        add(FILE, "DataVersion", version());
    }

    private static void tables() throws Exception {
        TopicConfig topic = new TopicConfig("TopicTest", 4, 8, 6);
        TopicConfigSerializeWrapper topics = new TopicConfigSerializeWrapper();
        topics.setTopicConfigTable(concurrent("TopicTest", topic));
        topics.setDataVersion(version());
        add(FILE, "TopicConfigSerializeWrapper", topics);
        topics.setTopicConfigTable(concurrent("O", fill(new TopicConfig("O", 1, 1, 2),
            "order", true, "topicSysFlag", 3, "topicFilterType", TopicFilterType.MULTI_TAG)));
        add(FILE, "TopicConfigSerializeWrapper/ordered", topics);
        topics.setTopicConfigTable(new ConcurrentHashMap<>());
        add(FILE, "TopicConfigSerializeWrapper/empty", topics);

        SubscriptionGroupConfig group = fill(new SubscriptionGroupConfig(), "groupName", "group_a");
        add(FILE, "SubscriptionGroupConfig", group);
        SubscriptionGroupWrapper groups = new SubscriptionGroupWrapper();
        groups.setSubscriptionGroupTable(concurrent("group_a", group));
        groups.setDataVersion(version());
        add(FILE, "SubscriptionGroupWrapper", groups);

        ConcurrentMap<Integer, Long> offsets = concurrent(0, 12L);
        offsets.put(1, 5_000_000_000L);
        add(FILE, "ConsumerOffsetSerializeWrapper", fill(new ConsumerOffsetSerializeWrapper(),
            "offsetTable", concurrent("TopicTest@group_a", offsets)));
        ConcurrentMap<Integer, Long> delays = concurrent(1, 10L);
        delays.put(18, 0L);
        add(FILE, "DelayOffsetSerializeWrapper",
            fill(new DelayOffsetSerializeWrapper(), "offsetTable", delays));
    }

    private static void clients() throws Exception {
        add(FILE, "HeartbeatData", heartbeat());
        add(FILE, "HeartbeatData/empty", fill(new HeartbeatData(), "clientID", "10.0.0.5@1"));
        String sql = "color = 'red' AND weight > 3";
        Map<String, String[]> subscriptions = new LinkedHashMap<>();
        subscriptions.put("star", new String[] {"*", "TAG"});
        subscriptions.put("empty", new String[] {"", "TAG"});
        subscriptions.put("null", new String[] {null, null});
        subscriptions.put("two", new String[] {"A || B", "TAG"});
        subscriptions.put("ragged", new String[] {" A||B ||  C || ", "TAG"});
        subscriptions.put("negative_hash", new String[] {"polygenelubricants", "TAG"});
        subscriptions.put("sql92", new String[] {sql, "SQL92"});
        for (Map.Entry<String, String[]> entry : subscriptions.entrySet()) {
            String[] asked = entry.getValue();
            add(FILE, "SubscriptionData/" + entry.getKey(),
                subscription("TopicTest", asked[0], asked[1]));
        }
        add(FILE, "CheckClientRequestBody", fill(new CheckClientRequestBody(),
            "clientId", "10.0.0.5@4242#1", "group", "group_a",
            "subscriptionData", subscription("TopicTest", sql, "SQL92")));
        add(FILE, "GetConsumerListByGroupResponseBody", fill(
            new GetConsumerListByGroupResponseBody(),
            "consumerIdList", Arrays.asList("10.0.0.5@4242#1", "10.0.0.6@17#2")));
    }

    private static void locks() throws Exception {
        HashSet<MessageQueue> queues = new HashSet<>(Arrays.asList(queue(0), queue(1)));
        add(FILE, "MessageQueue", queue(3));
        for (Object body
            : new Object[] {new LockBatchRequestBody(), new UnlockBatchRequestBody()}) {
            fill(body, "consumerGroup", "group_a", "clientId", "10.0.0.5@4242#1", "mqSet", queues);
            add(FILE, body.getClass().getSimpleName(), body);
        }
        add(FILE, "LockBatchResponseBody",
            fill(new LockBatchResponseBody(), "lockOKMQSet", queues));
        add(FILE, "LockBatchResponseBody/empty", new LockBatchResponseBody());
    }

    static MessageQueue queue(int id) {
        return new MessageQueue("TopicTest", "broker-a", id);
    }
}
