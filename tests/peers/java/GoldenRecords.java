import java.net.InetSocketAddress;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageAccessor;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;

/** Stored records and batch bodies. */
final class GoldenRecords {
    private static final GoldenFile FILE = new GoldenFile();
    private static final String V4 = "10.1.2.3";
    private static final String V6 = "2001:db8:0:1::abcd";
    private static final byte[] LONG_BODY = GoldenFile.utf8("comet ".repeat(200));

    private GoldenRecords() {
    }

    static GoldenFile record() throws Exception {
        String[] names = {"ipv4", "ipv6"};
        String[] hosts = {V4, V6};
        for (int born = 0; born < 2; born++) {
            for (int store = 0; store < 2; store++) {
                add("born_" + names[born] + "_store_" + names[store],
                    message("TopicTest", GoldenFile.utf8("hello comet"), hosts[born],
                        hosts[store]));
            }
        }
        bodies();
        properties();
        topics();
        compressed();
        batches();
        return FILE;
    }

    private static void bodies() throws Exception {
        add("empty_body", message("TopicTest", new byte[0], V4, V4));
        add("binary_body", message("TopicTest", new byte[] {0, 1, 2, -1, -128, 127}, V4, V4));
        MessageExt half = message("RMQ_SYS_TRANS_HALF_TOPIC", GoldenFile.utf8("half"), V4, V4);
        half.setSysFlag(MessageSysFlag.TRANSACTION_PREPARED_TYPE);
        half.setPreparedTransactionOffset(987_654_321_000L);
        add("half_message", half);
        MessageExt extreme = message("TopicTest", GoldenFile.utf8("x"), "255.255.255.255", V4);
        extreme.setQueueId(Integer.MAX_VALUE);
        extreme.setQueueOffset(Long.MAX_VALUE);
        extreme.setCommitLogOffset(Long.MAX_VALUE);
        extreme.setFlag(Integer.MIN_VALUE);
        extreme.setReconsumeTimes(16);
        add("extreme_numbers", extreme);
    }

    private static void properties() throws Exception {
        MessageExt none = message("TopicTest", GoldenFile.utf8("no properties"), V4, V4);
        MessageAccessor.setProperties(none, new TreeMap<>());
        add("no_properties", none);
        MessageExt many = message("TopicTest", GoldenFile.utf8("many"), V4, V4);
        many.setKeys(Arrays.asList("key-1", "key-2"));
        many.putUserProperty("colour", "caf\u00e9 \u6d88\u606f \ud83d\ude80");
        many.putUserProperty("a=b", "c d");
        many.setDelayTimeLevel(3);
        add("many_properties", many);
    }

    private static void topics() throws Exception {
        add("retry_topic", message("%RETRY%group_a", GoldenFile.utf8("again"), V4, V4));
        add("all_topic_characters", message("%DLQ%ns%aZ09_-|x", GoldenFile.utf8("all"), V4, V4));
        // The decoder takes any UTF-8 here, though no client would send it.
        add("unicode_topic", message("t\u00e9l\u00e9", GoldenFile.utf8("odd"), V4, V4));
        add("longest_topic", message("T".repeat(127), GoldenFile.utf8("long"), V4, V4));
    }

    private static void compressed() throws Exception {
        int[] types = {0, MessageSysFlag.COMPRESSION_LZ4_TYPE, MessageSysFlag.COMPRESSION_ZSTD_TYPE,
            MessageSysFlag.COMPRESSION_ZLIB_TYPE};
        String[] names = {"untyped", "lz4", "zstd", "zlib"};
        for (int i = 0; i < types.length; i++) {
            MessageExt message = message("TopicTest", LONG_BODY, V4, V4);
            message.setSysFlag(MessageSysFlag.COMPRESSED_FLAG | types[i]);
            FILE.bytes("compressed_" + names[i], MessageDecoder.encode(message, true),
                describe(message));
        }
    }

    private static void batches() {
        Message first = new Message("TopicTest", "red", "key-1", GoldenFile.utf8("first"));
        Message second = new Message("TopicTest", GoldenFile.utf8("second"));
        second.setFlag(42);
        Message empty = new Message("TopicTest", new byte[0]);
        empty.putUserProperty("colour", "caf\u00e9");
        List<Message> all = Arrays.asList(first, second, empty);
        FILE.bytes("batch_of_three", MessageDecoder.encodeMessages(all),
            Line.of("messages", Arrays.asList(parts(first), parts(second), parts(empty))));
        FILE.bytes("batch_item", MessageDecoder.encodeMessage(first), parts(first));
    }

    private static Object parts(Message message) {
        return Line.of("flag", message.getFlag(), "bodyHex", GoldenFile.hex(message.getBody()),
            "properties", new TreeMap<>(message.getProperties()),
            "propertiesText", MessageDecoder.messageProperties2String(message.getProperties()));
    }

    private static MessageExt message(String topic, byte[] body, String bornHost,
        String storeHost) {
        MessageExt message = new MessageExt(3, 1_700_000_000_123L,
            new InetSocketAddress(bornHost, 51234), 1_700_000_000_456L,
            new InetSocketAddress(storeHost, 10911), null);
        message.setTopic(topic);
        message.setBody(body);
        message.setFlag(7);
        message.setQueueOffset(12L);
        message.setCommitLogOffset(5_000_000_000L);
        message.setReconsumeTimes(2);
        message.setPreparedTransactionOffset(0L);
        message.setBodyCRC(UtilAll.crc32(body));
        Map<String, String> properties = new TreeMap<>();
        properties.put("TAGS", "red");
        properties.put("KEYS", "order-1");
        properties.put("UNIQ_KEY", "7F0000010001070DEA4E6D1B2A3C0000");
        MessageAccessor.setProperties(message, properties);
        if (bornHost.contains(":")) {
            message.setBornHostV6Flag();
        }
        if (storeHost.contains(":")) {
            message.setStoreHostAddressV6Flag();
        }
        return message;
    }

    private static void add(String name, MessageExt message) throws Exception {
        FILE.bytes(name, MessageDecoder.encode(message, false), describe(message));
    }

    private static Object describe(MessageExt m) {
        return Line.of("topic", m.getTopic(), "queueId", m.getQueueId(), "flag", m.getFlag(),
            "queueOffset", m.getQueueOffset(), "physicalOffset", m.getCommitLogOffset(),
            "sysFlag", m.getSysFlag(), "bornTimestamp", m.getBornTimestamp(),
            "bornHost", host(m.getBornHost()), "bornPort", port(m.getBornHost()),
            "storeTimestamp", m.getStoreTimestamp(), "storeHost", host(m.getStoreHost()),
            "storePort", port(m.getStoreHost()), "reconsumeTimes", m.getReconsumeTimes(),
            "preparedTransactionOffset", m.getPreparedTransactionOffset(),
            "bodyCrc", m.getBodyCRC(), "bodyHex", GoldenFile.hex(m.getBody()),
            "properties", new TreeMap<>(m.getProperties()),
            "propertiesText", MessageDecoder.messageProperties2String(m.getProperties()));
    }

    private static String host(Object address) {
        return ((InetSocketAddress) address).getAddress().getHostAddress();
    }

    private static int port(Object address) {
        return ((InetSocketAddress) address).getPort();
    }
}
