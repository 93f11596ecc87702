import java.util.Arrays;
import java.util.List;
import java.util.zip.CRC32;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageClientExt;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Pulls every message of topics from their first offsets on: namesrv step topic... A line per message,
 * and of every step-th of them whether it was found by its first key, and by its id.
 */
public final class Dump {
    private final DefaultMQPullConsumer consumer;
    private final int step;
    private int count;

    private Dump(String namesrv, int step) throws Exception {
        this.step = step;
        consumer = new DefaultMQPullConsumer("dumper");
        consumer.setNamesrvAddr(namesrv);
        consumer.setMqClientApiTimeout(Patience.API_MS);
        consumer.start();
    }

    public static void main(String[] args) {
        try {
            Dump dump = new Dump(args[0], Integer.parseInt(args[1]));
            for (String topic : Arrays.asList(args).subList(2, args.length)) {
                dump.topic(topic);
            }
            Line.print("done", true);
            System.exit(0);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);  // threads of the client would keep it alive
        }
    }

    private void topic(String topic) throws Exception {
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(topic)) {
            long offset = consumer.minOffset(queue);
            long end = consumer.maxOffset(queue);
            while (offset < end) {
                PullResult pulled = consumer.pull(queue, "*", offset, 32, 10000);
                if (pulled.getPullStatus() == PullStatus.FOUND) {
                    for (MessageExt message : pulled.getMsgFoundList()) {
                        print(message);
                    }
                } else if (pulled.getNextBeginOffset() <= offset) {
                    throw new IllegalStateException(queue + " at " + offset + ": " + pulled);
                }
                offset = pulled.getNextBeginOffset();
            }
        }
    }

    private void print(MessageExt message) throws Exception {
        CRC32 crc = new CRC32();
        byte[] body = message.getBody();
        crc.update(body == null ? new byte[0] : body);
        boolean look = count++ % step == 0;
        Line.print("keys", message.getKeys(), "tags", message.getTags(), "crc", crc.getValue(),
            "topic", message.getTopic(), "queue", message.getQueueId(),
            "offset", message.getQueueOffset(), "id", idOf(message),
            "at", message.getCommitLogOffset(), "colour", message.getUserProperty("colour"),
            "bornHost", message.getBornHostString(), "byKey", look ? isFoundByKey(message) : null,
            "byId", look ? isFoundById(message) : null);
    }

    private static String idOf(MessageExt message) {
        return ((MessageClientExt) message).getOffsetMsgId();
    }

    private boolean isFoundByKey(MessageExt message) throws Exception {
        String key = message.getKeys().split(" ")[0];
        List<MessageExt> found =
            consumer.queryMessage(message.getTopic(), key, 32, 0, Long.MAX_VALUE).getMessageList();
        return found.size() == 1
            && found.get(0).getCommitLogOffset() == message.getCommitLogOffset();
    }

    private boolean isFoundById(MessageExt message) throws Exception {
        MessageExt found = consumer.viewMessage(idOf(message));
        return found.getCommitLogOffset() == message.getCommitLogOffset()
            && found.getKeys().equals(message.getKeys());
    }
}
