import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.MessageSelector;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.ConsumeOrderlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.client.consumer.listener.MessageListenerOrderly;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;

/**
 * Receives messages with Apache's push consumer: namesrv topic group count [option...].
 *
 * <p>Ends after count messages (0: never) or at the end of stdin. Prints {"status":"STARTED"}, then
 * a line per message. Options: filter=expression (tags), sql=expression, orderly, broadcast, poll=ms
 * between route refreshes, ip=address in the client id, tls.
 */
public final class Consume {
    private static CountDownLatch wanted;

    public static void main(String[] args) throws Exception {
        Map<String, String> options = Line.options(args, 4);
        int count = Integer.parseInt(args[3]);
        wanted = new CountDownLatch(count == 0 ? Integer.MAX_VALUE : count);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setMqClientApiTimeout(Patience.API_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setPollNameServerInterval(
            Integer.parseInt(options.getOrDefault("poll", "30000")));
        consumer.setUseTLS(options.containsKey("tls"));
        if (options.containsKey("ip")) {
            consumer.setClientIP(options.get("ip"));
        }
        if (options.containsKey("broadcast")) {
            consumer.setMessageModel(MessageModel.BROADCASTING);
        }
        if (options.containsKey("sql")) {
            consumer.subscribe(args[1], MessageSelector.bySql(options.get("sql")));
        } else {
            consumer.subscribe(args[1], options.getOrDefault("filter", "*"));
        }
        listen(consumer, options.containsKey("orderly"));
        consumer.start();
        Line.print("status", "STARTED");
        stopAtEndOfInput();
        wanted.await();
        consumer.shutdown();
        System.exit(0);
    }

    private static void listen(DefaultMQPushConsumer consumer, boolean orderly) {
        if (orderly) {
            consumer.registerMessageListener((MessageListenerOrderly) (messages, context) -> {
                report(messages);
                return ConsumeOrderlyStatus.SUCCESS;
            });
        } else {
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                report(messages);
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
        }
    }

    private static void report(List<MessageExt> messages) {
        for (MessageExt message : messages) {
            Line.print("status", "MESSAGE", "topic", message.getTopic(),
                "body", new String(message.getBody(), StandardCharsets.UTF_8),
                "msgId", message.getMsgId(), "broker", message.getBrokerName(),
                "queue", message.getQueueId(), "offset", message.getQueueOffset(),
                "tags", message.getTags(), "keys", message.getKeys(),
                "reconsumeTimes", message.getReconsumeTimes(),
                "properties", message.getProperties());
            wanted.countDown();
        }
    }

    private static void stopAtEndOfInput() {
        Thread watcher = new Thread(() -> {
            try {
                Line.waitForEndOfInput();
            } catch (java.io.IOException e) {
                // The pipe is broken: the same as its end.
            }
            while (wanted.getCount() > 0) {
                wanted.countDown();
            }
        });
        watcher.setDaemon(true);
        watcher.start();
    }
}
