import java.io.StringReader;
import java.net.InetSocketAddress;
import java.util.Date;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.SortedMap;
import java.util.TreeMap;
import org.apache.rocketmq.acl.common.AclUtils;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.compression.CompressorFactory;
import org.apache.rocketmq.common.message.MessageClientIDSetter;
import org.apache.rocketmq.common.message.MessageDecoder;
import org.apache.rocketmq.common.message.MessageId;
import org.apache.rocketmq.common.namesrv.NamesrvConfig;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Ids, hashes and the small text formats. Entry names are "subject/case". */
final class GoldenIds {
    private static final GoldenFile FILE = new GoldenFile();
    private static final String UNICODE = "caf\u00e9 \u6d88\u606f \ud83d\ude80";

    private GoldenIds() {
    }

    static GoldenFile record() throws Exception {
        offsetIds();
        uniqueIds();
        hashes();
        compressions();
        messageProperties();
        javaProperties();
        signatures();
        GoldenNames.record(FILE);
        return FILE;
    }

    private static void offsetIds() throws Exception {
        String[] hosts = {"10.1.2.3", "255.255.255.255", "2001:db8:0:1::abcd"};
        long[] offsets = {0, 456, Long.MAX_VALUE};
        for (String host : hosts) {
            for (long offset : offsets) {
                InetSocketAddress address = new InetSocketAddress(host, 10911);
                String id = MessageDecoder.createMessageId(address, offset);
                MessageId back = MessageDecoder.decodeMessageId(id);
                InetSocketAddress backAddress = (InetSocketAddress) back.getAddress();
                FILE.text("offset_id/" + host + "/" + offset, id, Line.of(
                    "host", address.getAddress().getHostAddress(), "port", 10911, "offset", offset,
                    "decodedHost", backAddress.getAddress().getHostAddress(),
                    "decodedPort", backAddress.getPort(), "decodedOffset", back.getOffset()));
            }
        }
    }

    private static void uniqueIds() throws InterruptedException {
        for (int i = 0; i < 3; i++) {
            // The address of the machine that records gives way to one of an example network; what
            // follows the address is as it was made.
            String made = MessageClientIDSetter.createUniqID();
            String tail = made.substring(made.length() - 24);
            // An id of this very millisecond is taken for one of last month.
            Thread.sleep(5);
            unique("unique_id/ipv4/" + i, "0A010203" + tail);
            unique("unique_id/ipv6/" + i, "20010DB800000001000000000000ABCD" + tail);
        }
    }

    private static void unique(String name, String id) {
        Date time = MessageClientIDSetter.getNearlyTimeFromID(id);
        FILE.text(name, id, Line.of("length", id.length(),
            "ipHex", GoldenFile.hex(MessageClientIDSetter.getIPFromID(id)),
            "ipText", MessageClientIDSetter.getIPStrFromID(id),
            "pid", MessageClientIDSetter.getPidFromID(id), "timeMs", time.getTime(),
            "recordedMs", System.currentTimeMillis(),
            "zone", java.time.ZoneId.systemDefault().getId()));
    }

    private static void hashes() {
        String[] texts = {"", "a", "b", "ab", "ba", "A", "0", " ", "TagA", "TagB", "red", "blue",
            "TopicTest", "TopicTest#key-1", "TopicTest#7F0000010001070DEA4E6D1B2A3C0000",
            "polygenelubricants", "Aa", "BB", "\u0000", "\u0001\u0002", "\u00e9", "\u6d88\u606f",
            "\ud83d\ude80", "a\ud83d\ude80b", UNICODE, "\uffff", "\ud800", "x".repeat(1000),
            "0123456789".repeat(30), "The quick brown fox jumps over the lazy dog"};
        int rank = 0;
        for (String text : texts) {
            // A half of a surrogate pair is no text in UTF-8: its UTF-16 form tells what it was.
            boolean broken = text.equals("\ud800");
            FILE.value("hash_code/" + rank++, Line.of("text", broken ? null : text,
                "utf16Hex", utf16(text),
                "hashCode", text.hashCode()));
        }
        byte[][] samples = {new byte[0], {0}, {-1, -1, -1, -1}, GoldenFile.utf8("123456789"),
            GoldenFile.utf8(UNICODE), new byte[1000]};
        for (byte[] sample : samples) {
            FILE.bytes("crc32/" + sample.length, sample,
                Line.of("crc32", UtilAll.crc32(sample)));
        }
        for (long offset : new long[] {0, 1_073_741_824L, Long.MAX_VALUE}) {
            FILE.text("file_name/" + offset, UtilAll.offset2FileName(offset), offset);
        }
    }

    private static String utf16(String text) {
        // Not by an encoder, which would put a mark in the place of half a pair.
        StringBuilder hex = new StringBuilder();
        for (char c : text.toCharArray()) {
            hex.append(String.format("%04x", (int) c));
        }
        return hex.toString();
    }

    private static void compressions() throws Exception {
        byte[][] samples = {new byte[0], GoldenFile.utf8("hello comet"),
            GoldenFile.utf8("comet ".repeat(300))};
        for (byte[] sample : samples) {
            FILE.bytes("compress/util/" + sample.length, UtilAll.compress(sample, 5),
                Line.of("level", 5, "plainHex", GoldenFile.hex(sample)));
            for (CompressionType type : CompressionType.values()) {
                FILE.bytes("compress/" + type + "/" + sample.length,
                    CompressorFactory.getCompressor(type).compress(sample, 5),
                    Line.of("level", 5, "plainHex", GoldenFile.hex(sample),
                        "typeValue", type.getValue(), "sysFlag", type.getCompressionFlag()));
            }
        }
    }

    private static void messageProperties() {
        Map<String, Map<String, String>> cases = new LinkedHashMap<>();
        cases.put("none", new TreeMap<>());
        cases.put("one", new TreeMap<>(Map.of("TAGS", "red")));
        cases.put("three", new TreeMap<>(Map.of("KEYS", "a b", "TAGS", "red", "WAIT", "true")));
        cases.put("empty_value", new TreeMap<>(Map.of("A", "", "B", "x")));
        cases.put("odd", new TreeMap<>(Map.of("a=b", "c;d\n\"e\"\\", UNICODE, UNICODE)));
        cases.put("separators_inside", new TreeMap<>(Map.of("A", "x\u0001y", "B", "p\u0002q")));
        Map<String, String> withNull = new TreeMap<>();
        withNull.put("A", null);
        withNull.put("B", "x");
        cases.put("null_value", withNull);
        for (Map.Entry<String, Map<String, String>> entry : cases.entrySet()) {
            String text = MessageDecoder.messageProperties2String(entry.getValue());
            FILE.text("properties_to_text/" + entry.getKey(), text, Line.of(
                "properties", entry.getValue(), "readBack", read(text)));
        }
        String[] texts = {"", "A\u0001x", "A\u0001x\u0002", "A\u0001x\u0002\u0002B\u0001y",
            "A\u0001\u0002B\u0001y\u0002", "A\u0002B\u0001y\u0002", "\u0001x\u0002",
            "A\u0001x\u0001y\u0002B\u0001z", "A\u0001x\u0002A\u0001y\u0002", "\u0002", "\u0001",
            "AB\u0001", "no separators"};
        for (int i = 0; i < texts.length; i++) {
            FILE.text("text_to_properties/" + i, texts[i], read(texts[i]));
        }
    }

    private static Object read(String text) {
        Map<String, String> read = MessageDecoder.string2messageProperties(text);
        return read == null ? null : new TreeMap<>(read);
    }

    private static void javaProperties() throws Exception {
        String[] texts = {"# comment\n! another\n\nkey=value\n",
            "a=1\nb:2\nc 3\nd\t4\ne = 5 \nf : 6\ng   =   7\nh==8\ni = = 9\nj\n",
            "long=one,\\\n    two,\\\n\tthree\nnext=x\n",
            "escapes=tab\\there\\nline\\\\back\\q\\:\\=\\#\\!\\ end\\ \n",
            "unicode=caf\\u00e9 \\u6d88\\uD83D\\uDE80\nraw=caf\u00e9\n",
            "a\\ b=key with space\na\\:b=colon\na\\=b=equals\n\\#x=hash\n",
            "dos=1\r\nmac=2\runix=3\n", "double=1\ndouble=2\n", "trailing=back\\", "  led = x\n",
            "#no\\\nyes=1\n", "empty=\nspace= \n=novalue\n:alsonokey\n", "odd=x\\\\\\\ny\n",
            "path=C:\\\\data\\\\store\nlist=a;b;c\nformfeed\f=x\n"};
        for (int i = 0; i < texts.length; i++) {
            Properties loaded = new Properties();
            loaded.load(new StringReader(texts[i]));
            FILE.text("java_properties/" + i, texts[i], new TreeMap<>(loaded));
        }
        NamesrvConfig config = new NamesrvConfig();
        config.setRocketmqHome("home");
        config.setKvConfigPath("home/kvConfig.json");
        config.setConfigStorePath("home/namesrv.properties");
        Properties properties = MixAll.object2Properties(config);
        FILE.text("object_to_properties/namesrv", MixAll.properties2String(properties),
            new TreeMap<>(properties));
        Properties odd = GoldenFile.properties("key", "a=b # c\\d " + UNICODE);
        FILE.text("object_to_properties/odd", MixAll.properties2String(odd), new TreeMap<>(odd));
    }

    private static void signatures() {
        SortedMap<String, String> fields = new TreeMap<>();
        fields.put("AccessKey", "comet");
        fields.put("topic", "TopicTest");
        fields.put("a", UNICODE);
        for (String body : new String[] {null, "", "hello comet"}) {
            RemotingCommand command = RemotingCommand.createRequestCommand(310, null);
            command.setBody(body == null ? null : GoldenFile.utf8(body));
            byte[] content = AclUtils.combineRequestContent(command, fields);
            FILE.text("signature/" + body, AclUtils.calSignature(content, "12345678"), Line.of(
                "secretKey", "12345678", "extFields", fields, "body", body,
                "contentHex", GoldenFile.hex(content)));
        }
        for (String text : new String[] {"TopicTest 4 8 6 SINGLE_TAG", "T 1 1 2 MULTI_TAG",
            "TopicTest 4 8 6", "TopicTest"}) {
            TopicConfig topic = new TopicConfig();
            boolean good = topic.decode(text);
            FILE.text("topic_config/" + text.length(), text, Line.of("decoded", good,
                "topicName", topic.getTopicName(), "readQueueNums", topic.getReadQueueNums(),
                "writeQueueNums", topic.getWriteQueueNums(), "perm", topic.getPerm(),
                "topicFilterType", topic.getTopicFilterType().name(), "encoded", topic.encode()));
        }
    }
}
