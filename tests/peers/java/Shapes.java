import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.common.message.Message;

/** The i-th message of a test: every reader knows what it must be. */
final class Shapes {
    private Shapes() {
    }

    static byte[] body(int i) {
        if (i % 997 == 0) {
            byte[] large = new byte[200_000];
            Arrays.fill(large, (byte) ('a' + i % 26));
            return large;
        }
        return ("body-" + i + "-\u6d88\u606f").getBytes(StandardCharsets.UTF_8);
    }

    static Message message(String topic, int i) {
        Message message = new Message(topic, body(i));
        message.setKeys("k" + i);
        if (i % 3 == 0) {
            message.setTags("tag" + i % 5);
        }
        if (i % 7 == 0) {
            message.putUserProperty("colour", "green-" + i);
        }
        return message;
    }
}
