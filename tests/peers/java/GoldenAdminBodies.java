import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import org.apache.rocketmq.common.admin.ConsumeStats;
import org.apache.rocketmq.common.admin.OffsetWrapper;
import org.apache.rocketmq.common.admin.TopicOffset;
import org.apache.rocketmq.common.admin.TopicStatsTable;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.common.message.MessageQueueForC;
import org.apache.rocketmq.common.protocol.body.BrokerStatsData;
import org.apache.rocketmq.common.protocol.body.BrokerStatsItem;
import org.apache.rocketmq.common.protocol.body.CMResult;
import org.apache.rocketmq.common.protocol.body.Connection;
import org.apache.rocketmq.common.protocol.body.ConsumeMessageDirectlyResult;
import org.apache.rocketmq.common.protocol.body.ConsumeQueueData;
import org.apache.rocketmq.common.protocol.body.ConsumeStatsList;
import org.apache.rocketmq.common.protocol.body.ConsumeStatus;
import org.apache.rocketmq.common.protocol.body.ConsumerConnection;
import org.apache.rocketmq.common.protocol.body.ConsumerRunningInfo;
import org.apache.rocketmq.common.protocol.body.GetConsumerStatusBody;
import org.apache.rocketmq.common.protocol.body.GroupList;
import org.apache.rocketmq.common.protocol.body.ProcessQueueInfo;
import org.apache.rocketmq.common.protocol.body.ProducerConnection;
import org.apache.rocketmq.common.protocol.body.ProducerInfo;
import org.apache.rocketmq.common.protocol.body.ProducerTableInfo;
import org.apache.rocketmq.common.protocol.body.QueryConsumeQueueResponseBody;
import org.apache.rocketmq.common.protocol.body.QueryConsumeTimeSpanBody;
import org.apache.rocketmq.common.protocol.body.QueryCorrectionOffsetBody;
import org.apache.rocketmq.common.protocol.body.QueueTimeSpan;
import org.apache.rocketmq.common.protocol.body.ResetOffsetBody;
import org.apache.rocketmq.common.protocol.body.ResetOffsetBodyForC;
import org.apache.rocketmq.common.protocol.heartbeat.ConsumeType;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.common.protocol.topic.OffsetMovedEvent;
import org.apache.rocketmq.remoting.protocol.LanguageCode;

/** JSON bodies of the admin requests, many of them with objects as keys of maps. */
final class GoldenAdminBodies {
    private static final long TIME = 1_700_000_000_000L;
    private static GoldenFile file;

    private GoldenAdminBodies() {
    }

    static void record(GoldenFile into) throws Exception {
        file = into;
        offsets();
        connections();
        runningInfo();
        statistics();
        queries();
    }

    private static void add(String name, Object body) throws Exception {
        GoldenBodies.add(file, name, body);
    }

    private static ConsumeStats consumeStats() throws Exception {
        OffsetWrapper offset = GoldenBodies.fill(new OffsetWrapper(), "brokerOffset", 100L,
            "consumerOffset", 90L, "lastTimestamp", TIME);
        return GoldenBodies.fill(new ConsumeStats(), "consumeTps", 12.5,
            "offsetTable", GoldenBodies.map(GoldenBodies.queue(0), offset));
    }

    private static void offsets() throws Exception {
        ConsumeStats two = consumeStats();
        two.getOffsetTable().put(GoldenBodies.queue(1), new OffsetWrapper());
        add("ConsumeStats", consumeStats());
        add("ConsumeStats/two", two);
        add("ConsumeStats/empty", new ConsumeStats());
        TopicOffset range = GoldenBodies.fill(new TopicOffset(), "minOffset", 1L,
            "maxOffset", 100L, "lastUpdateTimestamp", TIME);
        add("TopicStatsTable", GoldenBodies.fill(new TopicStatsTable(),
            "offsetTable", GoldenBodies.map(GoldenBodies.queue(0), range)));
        add("TopicStatsTable/empty", new TopicStatsTable());
        HashMap<MessageQueue, Long> reset = GoldenBodies.map(GoldenBodies.queue(0), 10L);
        reset.put(GoldenBodies.queue(1), 5_000_000_000L);
        add("ResetOffsetBody", GoldenBodies.fill(new ResetOffsetBody(), "offsetTable", reset));
        add("ResetOffsetBodyForC", GoldenBodies.fill(new ResetOffsetBodyForC(), "offsetTable",
            Arrays.asList(new MessageQueueForC("TopicTest", "broker-a", 0, 10L))));
        HashMap<MessageQueue, Long> status = GoldenBodies.map(GoldenBodies.queue(0), 10L);
        add("GetConsumerStatusBody/client",
            GoldenBodies.fill(new GetConsumerStatusBody(), "messageQueueTable", status));
        add("GetConsumerStatusBody/broker", GoldenBodies.fill(new GetConsumerStatusBody(),
            "consumerTable", GoldenBodies.map("10.0.0.5@1", status)));
        // The same object twice: the writer refers to the first by a path instead of repeating it.
        add("GetConsumerStatusBody/shared", GoldenBodies.fill(new GetConsumerStatusBody(),
            "messageQueueTable", status, "consumerTable", GoldenBodies.map("10.0.0.5@1", status)));
        add("QueryCorrectionOffsetBody", GoldenBodies.fill(new QueryCorrectionOffsetBody(),
            "correctionOffsets", GoldenBodies.map(0, 10L)));
        add("OffsetMovedEvent", GoldenBodies.fill(new OffsetMovedEvent(),
            "consumerGroup", "group_a", "messageQueue", GoldenBodies.queue(0),
            "offsetRequest", 5L, "offsetNew", 10L));
    }

    private static void connections() throws Exception {
        Connection connection = GoldenBodies.fill(new Connection(), "clientId", "10.0.0.5@4242#1",
            "clientAddr", "10.0.0.5:51000", "language", LanguageCode.JAVA, "version", 407);
        HashSet<Connection> set = new HashSet<>(Arrays.asList(connection));
        add("ConsumerConnection", GoldenBodies.fill(new ConsumerConnection(),
            "connectionSet", set, "consumeType", ConsumeType.CONSUME_ACTIVELY,
            "messageModel", MessageModel.BROADCASTING,
            "consumeFromWhere", ConsumeFromWhere.CONSUME_FROM_TIMESTAMP,
            "subscriptionTable", GoldenBodies.concurrent("TopicTest",
                GoldenBodies.subscription("TopicTest", "*", "TAG"))));
        add("ProducerConnection",
            GoldenBodies.fill(new ProducerConnection(), "connectionSet", set));
        ProducerInfo producer = new ProducerInfo("10.0.0.5@4242", "10.0.0.5", LanguageCode.PYTHON,
            407, TIME);
        add("ProducerTableInfo", new ProducerTableInfo(
            GoldenBodies.map("producer_a", Arrays.asList(producer))));
        add("GroupList", GoldenBodies.fill(new GroupList(),
            "groupList", new HashSet<>(Arrays.asList("group_a"))));
    }

    private static void runningInfo() throws Exception {
        ProcessQueueInfo queue = GoldenBodies.fill(new ProcessQueueInfo(), "commitOffset", 5L,
            "cachedMsgMinOffset", 6L, "cachedMsgMaxOffset", 9L, "cachedMsgCount", 4,
            "cachedMsgSizeInMiB", 1, "locked", true, "lastLockTimestamp", TIME,
            "lastPullTimestamp", TIME, "lastConsumeTimestamp", TIME);
        ConsumeStatus status = GoldenBodies.fill(new ConsumeStatus(), "pullRT", 1.5,
            "pullTPS", 100.0, "consumeRT", 0.25, "consumeOKTPS", 99.0, "consumeFailedTPS", 1.0E-5,
            "consumeFailedMsgs", 3L);
        ConsumerRunningInfo info = new ConsumerRunningInfo();
        info.setProperties(GoldenFile.properties("PROP_CONSUMEORDERLY", "false"));
        info.getSubscriptionSet().add(GoldenBodies.subscription("TopicTest", "A", "TAG"));
        info.getMqTable().put(GoldenBodies.queue(0), queue);
        info.getStatusTable().put("TopicTest", status);
        add("ConsumerRunningInfo", info);
        info.setJstack("TID: 1 STATE: RUNNABLE\nmain\n");
        add("ConsumerRunningInfo/jstack", info);
        add("ConsumerRunningInfo/empty", new ConsumerRunningInfo());
        add("ConsumeMessageDirectlyResult", GoldenBodies.fill(new ConsumeMessageDirectlyResult(),
            "consumeResult", CMResult.CR_SUCCESS, "spentTimeMills", 3L));
        add("ConsumeMessageDirectlyResult/failed", GoldenBodies.fill(
            new ConsumeMessageDirectlyResult(), "order", true, "autoCommit", false,
            "consumeResult", CMResult.CR_THROW_EXCEPTION, "remark", "it \"broke\"\n\there"));
    }

    private static void statistics() throws Exception {
        BrokerStatsItem item = GoldenBodies.fill(new BrokerStatsItem(), "sum", 60L, "tps", 1.0,
            "avgpt", 0.0);
        BrokerStatsItem day = GoldenBodies.fill(new BrokerStatsItem(), "sum", 5_000_000_000L,
            "tps", 57870.37037, "avgpt", 1.0E-4);
        add("BrokerStatsData", GoldenBodies.fill(new BrokerStatsData(), "statsMinute", item,
            "statsHour", GoldenBodies.fill(new BrokerStatsItem(), "tps", 1.0E7), "statsDay", day));
        List<Map<String, List<ConsumeStats>>> list = new ArrayList<>();
        list.add(GoldenBodies.map("group_a", Arrays.asList(consumeStats())));
        add("ConsumeStatsList", GoldenBodies.fill(new ConsumeStatsList(),
            "consumeStatsList", list, "brokerAddr", "10.0.0.1:10911", "totalDiff", 10L));
        add("BrokerStatsData/shared", GoldenBodies.fill(new BrokerStatsData(), "statsMinute", item,
            "statsHour", item, "statsDay", item));
    }

    private static void queries() throws Exception {
        QueueTimeSpan span = GoldenBodies.fill(new QueueTimeSpan(),
            "messageQueue", GoldenBodies.queue(0), "minTimeStamp", TIME, "maxTimeStamp", TIME + 5,
            "consumeTimeStamp", TIME + 2, "delayTime", 3L);
        add("QueryConsumeTimeSpanBody", GoldenBodies.fill(new QueryConsumeTimeSpanBody(),
            "consumeTimeSpanSet", Arrays.asList(span)));
        ConsumeQueueData unit = GoldenBodies.fill(new ConsumeQueueData(), "physicOffset", 456L,
            "physicSize", 200, "tagsCode", -5L, "eval", true);
        ConsumeQueueData full = GoldenBodies.fill(new ConsumeQueueData(), "physicOffset", 656L,
            "physicSize", 201, "tagsCode", 0L, "eval", false, "extendDataJson", "{}",
            "bitMap", "0101", "msg", "a message");
        add("QueryConsumeQueueResponseBody", GoldenBodies.fill(new QueryConsumeQueueResponseBody(),
            "subscriptionData", GoldenBodies.subscription("TopicTest", "*", "TAG"),
            "filterData", "null", "queueData", Arrays.asList(unit, full),
            "maxQueueIndex", 9L, "minQueueIndex", 0L));
    }
}
