import java.io.ByteArrayInputStream;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.ConcurrentHashMap;
import java.util.zip.InflaterInputStream;
import org.apache.rocketmq.common.TopicConfig;
import org.apache.rocketmq.common.TopicFilterType;
import org.apache.rocketmq.common.UtilAll;
import org.apache.rocketmq.common.protocol.body.RegisterBrokerBody;

/** The body of a broker's registration: JSON, or packed and deflated. */
final class GoldenRegister {
    private GoldenRegister() {
    }

    static GoldenFile record() throws Exception {
        GoldenFile file = new GoldenFile();
        for (int topics : new int[] {0, 1, 3}) {
            for (boolean filters : new boolean[] {false, true}) {
                for (boolean compressed : new boolean[] {false, true}) {
                    add(file, topics, filters, compressed);
                }
            }
        }
        return file;
    }

    private static void add(GoldenFile file, int topics, boolean filters, boolean compressed)
        throws Exception {
        RegisterBrokerBody body = body(topics, filters);
        byte[] out = body.encode(compressed);
        byte[] open = compressed
            ? new InflaterInputStream(new ByteArrayInputStream(out)).readAllBytes() : out;
        String name = topics + "_topics" + (filters ? "_filters" : "")
            + (compressed ? "_compressed" : "_json");
        file.bytes(name, out, Line.of("compressed", compressed, "crc32", UtilAll.crc32(out),
            "inflatedHex", compressed ? GoldenFile.hex(open) : null,
            "text", compressed ? null : new String(out, "UTF-8"),
            "body", GoldenFile.plain(body), "topicLines", lines(body)));
    }

    private static List<String> lines(RegisterBrokerBody body) {
        List<String> lines = new ArrayList<>();
        for (TopicConfig topic
            : body.getTopicConfigSerializeWrapper().getTopicConfigTable().values()) {
            lines.add(topic.encode());
        }
        return lines;
    }

    private static RegisterBrokerBody body(int topics, boolean filters) throws Exception {
        TopicConfig[] all = {new TopicConfig("TopicTest", 4, 8, 6),
            GoldenBodies.fill(new TopicConfig("%RETRY%group_a", 1, 1, 6), "topicSysFlag", 3),
            GoldenBodies.fill(new TopicConfig("Ordered", 16, 16, 4), "order", true,
                "topicFilterType", TopicFilterType.MULTI_TAG)};
        RegisterBrokerBody body = new RegisterBrokerBody();
        body.getTopicConfigSerializeWrapper().setDataVersion(GoldenBodies.version());
        body.getTopicConfigSerializeWrapper().setTopicConfigTable(new ConcurrentHashMap<>());
        for (int i = 0; i < topics; i++) {
            body.getTopicConfigSerializeWrapper().getTopicConfigTable()
                .put(all[i].getTopicName(), all[i]);
        }
        body.setFilterServerList(filters
            ? Arrays.asList("10.0.0.1:30000", "10.0.0.1:30001") : new ArrayList<>());
        return body;
    }
}
