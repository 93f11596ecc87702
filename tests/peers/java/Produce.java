import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends messages with Apache's producer: namesrv topic group count prefix [option...].
 *
 * <p>Options: tag=T, key=K (K-i is the key of message i), delay=ms between sends, loop (go on until
 * stdin ends; count is ignored, a failed send is a line and not the end), timeout=ms of a send,
 * poll=ms between route refreshes, ip=address in the client id, tls. Body of message i: prefix-i.
 */
public final class Produce {
    private static final AtomicBoolean STOPPED = new AtomicBoolean();

    public static void main(String[] args) throws Exception {
        Map<String, String> options = Line.options(args, 5);
        DefaultMQProducer producer = new DefaultMQProducer(args[2]);
        producer.setNamesrvAddr(args[0]);
        producer.setMqClientApiTimeout(Patience.API_MS);
        producer.setRetryTimesWhenSendFailed(3);
        producer.setSendMsgTimeout(Integer.parseInt(options.getOrDefault("timeout", "5000")));
        producer.setPollNameServerInterval(
            Integer.parseInt(options.getOrDefault("poll", "30000")));
        producer.setUseTLS(options.containsKey("tls"));
        if (options.containsKey("ip")) {
            producer.setClientIP(options.get("ip"));
        }
        producer.start();
        boolean good;
        try {
            good = send(producer, args, options);
        } finally {
            producer.shutdown();
        }
        System.exit(good ? 0 : 1);
    }

    private static boolean send(DefaultMQProducer producer, String[] args,
        Map<String, String> options) throws InterruptedException {
        boolean loop = options.containsKey("loop");
        long delayMs = Long.parseLong(options.getOrDefault("delay", loop ? "100" : "0"));
        int count = loop ? Integer.MAX_VALUE : Integer.parseInt(args[3]);
        if (loop) {
            stopAtEndOfInput();
        }
        boolean good = true;
        for (int i = 0; i < count && !STOPPED.get() && (loop || good); i++) {
            good = sendOne(producer, args[1], args[4], i, options);
            Thread.sleep(delayMs);
        }
        return loop || good;
    }

    private static boolean sendOne(DefaultMQProducer producer, String topic, String prefix, int i,
        Map<String, String> options) {
        byte[] body = (prefix + "-" + i).getBytes(StandardCharsets.UTF_8);
        Message message = new Message(topic, options.get("tag"), body);
        if (options.containsKey("key")) {
            message.setKeys(options.get("key") + "-" + i);
        }
        try {
            SendResult sent = producer.send(message);
            Line.print("status", "OK", "i", i, "sendStatus", sent.getSendStatus().name(),
                "msgId", sent.getMsgId(), "offsetMsgId", sent.getOffsetMsgId(),
                "broker", sent.getMessageQueue().getBrokerName(),
                "queue", sent.getMessageQueue().getQueueId(), "offset", sent.getQueueOffset());
            return true;
        } catch (Exception e) {
            Line.print("status", "FAIL", "i", i, "error", String.valueOf(e));
            return false;
        }
    }

    private static void stopAtEndOfInput() {
        Thread watcher = new Thread(() -> {
            try {
                Line.waitForEndOfInput();
            } catch (java.io.IOException e) {
                // The pipe is broken: the same as its end.
            }
            STOPPED.set(true);
        });
        watcher.setDaemon(true);
        watcher.start();
    }
}
