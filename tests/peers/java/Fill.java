import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.common.message.Message;
import org.apache.rocketmq.common.message.MessageQueue;

/**
 * Sends many messages of many shapes: namesrv topic first count. Message i of the topic has the body
 * Shapes.body(i), the key "k" + i, and a tag, a batch or a great length now and then.
 */
public final class Fill {
    private static final int BATCH = 16;

    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("filler");
        producer.setNamesrvAddr(args[0]);
        producer.setSendMsgTimeout(10000);
        producer.setRetryTimesWhenSendFailed(5);
        producer.start();
        List<MessageQueue> queues = null;
        int first = Integer.parseInt(args[2]);
        int end = first + Integer.parseInt(args[3]);
        int i = first;
        while (i < end) {
            if (queues == null) {
                producer.send(Shapes.message(args[1], i++));
                queues = producer.fetchPublishMessageQueues(args[1]);
            } else if (i % 100 < BATCH && i + BATCH <= end && i % 100 == 0) {
                List<Message> batch = new ArrayList<>();
                for (int j = 0; j < BATCH; j++) {
                    batch.add(Shapes.message(args[1], i++));
                }
                producer.send(batch, queues.get(i % queues.size()));
            } else {
                producer.send(Shapes.message(args[1], i), queues.get(i % queues.size()));
                i++;
            }
        }
        Line.print("sent", i - first);
        producer.shutdown();
        System.exit(0);
    }
}
