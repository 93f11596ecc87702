import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.client.producer.TransactionMQProducer;
import org.apache.rocketmq.client.producer.TransactionSendResult;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageExt;

/** Half messages: decided at once, decided when asked, and never. */
final class TransactionStories {
    static final Map<String, Scenario.Story> TABLE = new LinkedHashMap<>();

    static {
        TABLE.put("Transaction", self -> decide(self, "commit", "rollback", "commit"));
        TABLE.put("CheckedBack", self -> decide(self, "check-commit", "check-rollback",
            "check-commit"));
        TABLE.put("NeverDecided", TransactionStories::never);
    }

    private TransactionStories() {
    }

    private static String body(Message message) {
        return new String(message.getBody(), StandardCharsets.UTF_8);
    }

    private static LocalTransactionState state(String word) {
        return word.endsWith("commit") ? LocalTransactionState.COMMIT_MESSAGE
            : word.endsWith("rollback") ? LocalTransactionState.ROLLBACK_MESSAGE
            : LocalTransactionState.UNKNOW;
    }

    private static TransactionMQProducer start(Scenario self, Map<String, Integer> checks)
        throws Exception {
        TransactionMQProducer producer =
            self.quick(new TransactionMQProducer(self.name + "-makers-tx"));
        producer.setTransactionListener(new TransactionListener() {
            @Override
            public LocalTransactionState executeLocalTransaction(Message message, Object word) {
                return word.toString().startsWith("check") ? LocalTransactionState.UNKNOW
                    : state(word.toString());
            }

            @Override
            public LocalTransactionState checkLocalTransaction(MessageExt message) {
                checks.merge(body(message), 1, Integer::sum);
                self.said("checked", message);
                return state(message.getUserProperty("fate"));
            }
        });
        producer.start();
        return self.owned(producer, producer::shutdown);
    }

    private static void send(Scenario self, TransactionMQProducer producer, String topic,
        String fate, int number) throws Exception {
        Message message = Scenario.message(topic, fate, fate + "-" + number);
        message.setKeys("key-" + number);
        message.putUserProperty("fate", fate);
        TransactionSendResult sent = producer.sendMessageInTransaction(message, fate);
        self.say("event", "sent", "status", sent.getSendStatus().name(), "msgId", sent.getMsgId(),
            "state", sent.getLocalTransactionState().name(),
            "transactionId", sent.getTransactionId());
    }

    private static void decide(Scenario self, String... fates) throws Exception {
        String topic = self.topic(2);
        Map<String, Integer> checks = new ConcurrentHashMap<>();
        TransactionMQProducer producer = start(self, checks);
        int committed = 0;
        int checked = 0;
        for (int i = 0; i < fates.length; i++) {
            send(self, producer, topic, fates[i], i);
            committed += fates[i].endsWith("commit") ? 1 : 0;
            checked += fates[i].startsWith("check") ? 1 : 0;
        }
        int expected = checked;
        Scenario.await("checks", () -> checks.size() == expected);
        self.tellAll(topic, committed);
    }

    private static void never(Scenario self) throws Exception {
        String topic = self.topic(1);
        Map<String, Integer> checks = new ConcurrentHashMap<>();
        send(self, start(self, checks), topic, "check-never", 0);
        self.tellAll("TRANS_CHECK_MAX_TIME_TOPIC", 1);
        self.say("event", "stored in topic",
            "count", self.reader().maxOffset(self.queues(topic).get(0)));
    }
}
