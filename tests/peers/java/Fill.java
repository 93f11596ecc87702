import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends many messages of many shapes: namesrv topic first count. Message i of the topic is
 * Shapes.message(topic, i); some are sent in batches, and those over IPv6 are left to another.
 */
public final class Fill {
    private static final int EVERY = 100;
    private static final int BATCH = 16;  // of each hundred

    private final String topic;
    private final DefaultMQProducer producer;
    private final DefaultMQProducer plain;  // never compresses: its big bodies are big on disk
    private final List<MessageQueue> queues;

    private Fill(String namesrv, String topic) throws Exception {
        this.topic = topic;
        this.producer = started("filler", namesrv);
        this.plain = started("plainFiller", namesrv);
        this.plain.setCompressMsgBodyOverHowmuch(Integer.MAX_VALUE);
        this.queues = producer.fetchPublishMessageQueues(topic);
    }

    public static void main(String[] args) {
        try {
            int first = Integer.parseInt(args[2]);
            int sent = new Fill(args[0], args[1]).fill(first, first + Integer.parseInt(args[3]));
            Line.print("sent", sent);
            System.exit(0);
        } catch (Exception error) {
            error.printStackTrace();
            System.exit(1);  // threads of the client would keep it alive
        }
    }

    private static DefaultMQProducer started(String group, String namesrv) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer(group);
        producer.setInstanceName(group);
        producer.setNamesrvAddr(namesrv);
        producer.setMqClientApiTimeout(Patience.API_MS);
        producer.setSendMsgTimeout(10000);
        producer.setRetryTimesWhenSendFailed(5);
        producer.start();
        return producer;
    }

    private int fill(int first, int end) throws Exception {
        int sent = 0;
        List<Message> batch = new ArrayList<>();
        for (int i = first; i < end; i++) {
            if (Shapes.isOverIpv6(i)) {
                continue;
            }
            sent++;
            Message message = Shapes.message(topic, i);
            MessageQueue queue = queues.get(i % queues.size());
            if (i % EVERY < BATCH && !Shapes.isDelayed(i) && message.getBody().length < 1000) {
                batch.add(message);
            } else {
                (Shapes.isBig(i) ? plain : producer).send(message, queue);
            }
            if (i % EVERY >= BATCH && !batch.isEmpty()) {
                producer.send(batch, queue);
                batch = new ArrayList<>();
            }
        }
        if (!batch.isEmpty()) {
            producer.send(batch, queues.get(0));
        }
        return sent;
    }
}
