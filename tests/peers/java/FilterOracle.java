import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONArray;
import com.alibaba.fastjson.JSONObject;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.rocketmq.broker.filter.MessageEvaluationContext;
import org.apache.rocketmq.common.filter.FilterAPI;
import org.apache.rocketmq.common.protocol.heartbeat.SubscriptionData;
import org.apache.rocketmq.filter.FilterFactory;
import org.apache.rocketmq.filter.expression.Expression;
import org.apache.rocketmq.filter.expression.MQFilterException;
import org.apache.rocketmq.filter.util.BitsArray;
import org.apache.rocketmq.filter.util.BloomFilter;

/** What Apache's filters say: one question per line of the file given, one answer per line. */
public final class FilterOracle {
    public static void main(String[] args) throws Exception {
        for (String line : Files.readAllLines(Paths.get(args[0]))) {
            JSONObject question = JSON.parseObject(line);
            if (question.containsKey("sql")) {
                sql(question.getString("sql"), question.getJSONArray("properties"));
            } else if (question.containsKey("tags")) {
                tags(question.getString("tags"), question.getString("kind"));
            } else {
                bloom(question.getIntValue("rate"), question.getIntValue("expected"),
                    question.getJSONArray("texts"));
            }
        }
        System.exit(0);
    }

    private static void sql(String text, JSONArray messages) {
        Expression compiled;
        try {
            compiled = FilterFactory.INSTANCE.get("SQL92").compile(text);
        } catch (MQFilterException refused) {
            Line.print("accepted", false);
            return;
        }
        List<Object> outcomes = new ArrayList<>();
        for (int i = 0; i < messages.size(); i++) {
            Map<String, String> properties = new HashMap<>();
            messages.getJSONObject(i).forEach((name, value) -> properties.put(name, (String) value));
            outcomes.add(outcome(compiled, properties));
        }
        Line.print("accepted", true, "outcomes", outcomes);
    }

    /** true, false, null (unknown) or the word error. */
    private static Object outcome(Expression compiled, Map<String, String> properties) {
        try {
            return compiled.evaluate(new MessageEvaluationContext(properties));
        } catch (Throwable failed) {
            return "error";
        }
    }

    private static void tags(String text, String kind) {
        try {
            SubscriptionData made = FilterAPI.build("topic", text, kind);
            Line.print("accepted", true, "tags", new TreeSet<>(made.getTagsSet()),
                "codes", new TreeSet<>(made.getCodeSet()), "text", made.getSubString(),
                "kind", made.getExpressionType());
        } catch (Exception refused) {
            Line.print("accepted", false);
        }
    }

    private static void bloom(int rate, int expected, JSONArray texts) {
        BloomFilter filter = BloomFilter.createByFn(rate, expected);
        List<Object> positions = new ArrayList<>();
        BitsArray bits = BitsArray.create(filter.getM());
        for (int i = 0; i < texts.size(); i++) {
            positions.add(filter.calcBitPositions(texts.getString(i)));
            filter.hashTo(texts.getString(i), bits);
        }
        Line.print("bits", filter.getM(), "positions", positions,
            "all", GoldenFile.hex(bits.bytes()));
    }
}
