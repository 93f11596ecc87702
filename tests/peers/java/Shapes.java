import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import org.apache.rocketmq.common.message.Message;

/** The i-th message of a test: every reader knows what it must be. The same as compat/swap.py's. */
final class Shapes {
    private static final int TWO_HOURS = 18;  // the last of the levels

    private Shapes() {
    }

    /** Sent by another: over IPv6, and some of them empty, which this client refuses. */
    static boolean isOverIpv6(int i) {
        return i % 40 == 1;
    }

    static boolean isDelayed(int i) {
        return i % 250 == 3;
    }

    static boolean isBig(int i) {
        return i % 4999 == 4998;
    }

    static byte[] body(int i) {
        int repeated = isBig(i) ? 1_300_000 : i % 997 == 0 ? 200_000 : 0;
        if (repeated > 0) {
            byte[] large = new byte[repeated];
            Arrays.fill(large, (byte) ('a' + i % 26));
            return large;
        }
        return ("body-" + i + "-\u6d88\u606f").getBytes(StandardCharsets.UTF_8);
    }

    static Message message(String topic, int i) {
        Message message = new Message(topic, body(i));
        message.setKeys("k" + i + " every" + i % 2000);
        if (i % 3 == 0) {
            message.setTags("tag" + i % 5);
        }
        if (i % 7 == 0) {
            message.putUserProperty("colour", "green-" + i);
        }
        if (isDelayed(i)) {
            message.setDelayTimeLevel(TWO_HOURS);
        }
        return message;
    }
}
