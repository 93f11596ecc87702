import java.util.zip.CRC32;
import org.apache.rocketmq.client.consumer.DefaultMQPullConsumer;
import org.apache.rocketmq.client.consumer.PullResult;
import org.apache.rocketmq.client.consumer.PullStatus;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;

/** Pulls every message of a topic from its first offset on: namesrv topic. A line per message. */
public final class Dump {
    public static void main(String[] args) {
        try {
            dump(args);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);  // threads of the client would keep it alive
        }
    }

    private static void dump(String[] args) throws Exception {
        DefaultMQPullConsumer consumer = new DefaultMQPullConsumer("dumper");
        consumer.setNamesrvAddr(args[0]);
        consumer.start();
        for (MessageQueue queue : consumer.fetchSubscribeMessageQueues(args[1])) {
            long offset = consumer.minOffset(queue);
            long end = consumer.maxOffset(queue);
            while (offset < end) {
                PullResult pulled = consumer.pull(queue, "*", offset, 32, 10000);
                if (pulled.getPullStatus() == PullStatus.FOUND) {
                    pulled.getMsgFoundList().forEach(Dump::print);
                } else if (pulled.getNextBeginOffset() <= offset) {
                    throw new IllegalStateException(queue + " at " + offset + ": " + pulled);
                }
                offset = pulled.getNextBeginOffset();
            }
        }
        Line.print("done", true);
        consumer.shutdown();
        System.exit(0);
    }

    private static void print(MessageExt message) {
        CRC32 crc = new CRC32();
        crc.update(message.getBody());
        Line.print("keys", message.getKeys(), "tags", message.getTags(), "crc", crc.getValue(),
            "queue", message.getQueueId(), "offset", message.getQueueOffset(),
            "id", message.getMsgId(), "at", message.getCommitLogOffset(),
            "colour", message.getUserProperty("colour"), "bornHost", message.getBornHostString());
    }
}
