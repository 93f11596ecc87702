import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.rocketmq.client.consumer.DefaultLitePullConsumer;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.message.MessageExt;

/**
 * Polls with Apache's lite pull consumer: namesrv topic group count [option...].
 *
 * <p>Ends after count messages (0: never) or at the end of stdin, and commits what it polled. Prints
 * {"status":"STARTED"}, a line per message, and {"status":"ENDED"} with the time and the CPU time
 * that it took since the first message. Options: batch=size of a poll, quiet (no line per message).
 */
public final class LitePull {
    private static final AtomicBoolean STOPPED = new AtomicBoolean();

    private LitePull() {
    }

    public static void main(String[] args) throws Exception {
        System.setProperty("rocketmq.client.rebalance.waitInterval", "500");
        int count = Integer.parseInt(args[3]);
        Map<String, String> options = Line.options(args, 4);
        DefaultLitePullConsumer consumer = new DefaultLitePullConsumer(args[2]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setMqClientApiTimeout(Patience.API_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setAutoCommit(false);
        consumer.setPersistConsumerOffsetInterval(500);
        consumer.setPullBatchSize(Integer.parseInt(options.getOrDefault("batch", "10")));
        consumer.subscribe(args[1], "*");
        consumer.start();
        Line.print("status", "STARTED");
        stopAtEndOfInput();
        OperatingSystemMXBean system =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        long begunNs = 0;
        long begunCpuNs = 0;
        int polled = 0;
        while (!STOPPED.get() && (count == 0 || polled < count)) {
            List<MessageExt> messages = consumer.poll(200);
            if (polled == 0) {
                begunNs = System.nanoTime();
                begunCpuNs = system.getProcessCpuTime();
            }
            polled += messages.size();
            if (!options.containsKey("quiet")) {
                messages.forEach(LitePull::tell);
            }
        }
        long tookNs = System.nanoTime() - begunNs;
        long tookCpuNs = system.getProcessCpuTime() - begunCpuNs;
        consumer.commitSync();
        consumer.shutdown();
        Line.print("status", "ENDED", "polled", polled, "us", tookNs / 1000,
            "cpuUs", tookCpuNs / 1000);
        System.exit(0);
    }

    private static void tell(MessageExt message) {
        Line.print("status", "MESSAGE", "queue", message.getQueueId(),
            "offset", message.getQueueOffset(),
            "body", new String(message.getBody(), StandardCharsets.UTF_8));
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
