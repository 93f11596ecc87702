import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.rocketmq.client.QueryResult;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Finding messages again. */
final class QueryStories {
    static final Map<String, Scenario.Story> TABLE = new LinkedHashMap<>();

    static {
        TABLE.put("Query", QueryStories::query);
    }

    private QueryStories() {
    }

    private static void query(Scenario self) throws Exception {
        String topic = self.topic(2);
        // The index keeps whole seconds since its first entry, rounded down.
        long begun = System.currentTimeMillis() - 5000;
        SendResult last = null;
        for (int i = 0; i < 6; i++) {
            Message message = Scenario.message(topic, null, "query-" + i);
            message.setKeys("own-" + i + " shared");
            last = self.producer().send(message);
            self.said("sent", last);
        }
        self.read(topic, 6);
        long end = System.currentTimeMillis() + 1000;
        Scenario.await("the index", () -> {
            try {
                // Of both brokers, where there are two.
                return self.producer().queryMessage(topic, "shared", 32, begun, end)
                    .getMessageList().size() == 6;
            } catch (MQClientException notYet) {
                return false;
            }
        });
        tell(self, "by own key", self.producer().queryMessage(topic, "own-3", 8, begun, end));
        tell(self, "by shared key", self.producer().queryMessage(topic, "shared", 32, begun, end));
        tell(self, "two of them", self.producer().queryMessage(topic, "shared", 2, begun, end));
        self.said("by unique id", self.producer().viewMessage(topic, last.getMsgId()));
        self.said("by offset id", self.producer().viewMessage(last.getOffsetMsgId()));
        try {
            tell(self, "absent", self.producer().queryMessage(topic, "nobody", 8, begun, end));
        } catch (MQClientException error) {
            self.say("event", "absent", "code", error.getResponseCode());
        }
        try {
            tell(self, "earlier",
                self.producer().queryMessage(topic, "shared", 8, 0, begun - 60_000));
        } catch (MQClientException error) {
            self.say("event", "earlier", "code", error.getResponseCode());
        }
    }

    private static void tell(Scenario self, String event, QueryResult found) {
        for (MessageExt message : found.getMessageList()) {
            self.said(event, message);
        }
    }
}
