import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;

/**
 * Consumes a backlog with Apache's push consumer: namesrv topic group count batch.
 *
 * <p>Prints how long it took from the first message on, and the CPU time of the process.
 */
public final class PushBacklog {
    public static void main(String[] args) throws Exception {
        long count = Long.parseLong(args[3]);
        OperatingSystemMXBean system =
            (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        AtomicLong seen = new AtomicLong();
        AtomicLong begunNs = new AtomicLong();
        AtomicLong begunCpuNs = new AtomicLong();
        CountDownLatch ended = new CountDownLatch(1);
        DefaultMQPushConsumer consumer = new DefaultMQPushConsumer(args[2]);
        consumer.setNamesrvAddr(args[0]);
        consumer.setMqClientApiTimeout(Patience.API_MS);
        consumer.setConsumeFromWhere(ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET);
        consumer.setConsumeMessageBatchMaxSize(Integer.parseInt(args[4]));
        consumer.subscribe(args[1], "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            if (begunNs.compareAndSet(0, System.nanoTime())) {
                begunCpuNs.set(system.getProcessCpuTime());
            }
            if (seen.addAndGet(messages.size()) >= count) {
                ended.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        ended.await();
        Line.print("us", (System.nanoTime() - begunNs.get()) / 1000,
            "cpuUs", (system.getProcessCpuTime() - begunCpuNs.get()) / 1000);
        consumer.shutdown();
        System.exit(0);
    }
}
