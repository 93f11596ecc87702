import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import org.apache.rocketmq.client.producer.DefaultMQProducer;
import org.apache.rocketmq.client.producer.SendCallback;
import org.apache.rocketmq.client.producer.SendResult;
import org.apache.rocketmq.common.message.Message;

/**
 * Sends a load with Apache's producer and tells what it cost: namesrv topic way width count.
 *
 * <p>Ways: threads (width threads, each waits for its answers), callback (width in flight), batch
 * (width messages a send). A third of the load is sent before, so that the JVM has compiled what is
 * hot. Prints one line: sent, seconds, cpuSeconds.
 */
public final class SendLoad {
    private static final byte[] BODY = new byte[128];

    public static void main(String[] args) throws Exception {
        DefaultMQProducer producer = new DefaultMQProducer("load");
        producer.setNamesrvAddr(args[0]);
        producer.setSendMsgTimeout(10_000);
        producer.start();
        int width = Integer.parseInt(args[3]);
        int count = Integer.parseInt(args[4]);
        send(producer, args[1], args[2], width, count / 3);
        long cpu = cpuNanos();
        long begun = System.nanoTime();
        send(producer, args[1], args[2], width, count);
        long ended = System.nanoTime();
        Line.print("sent", count, "seconds", (ended - begun) / 1e9,
            "cpuSeconds", (cpuNanos() - cpu) / 1e9);
        producer.shutdown();
        System.exit(0);
    }

    private static void send(DefaultMQProducer producer, String topic, String way, int width,
        int count) throws Exception {
        switch (way) {
            case "threads":
                byThreads(producer, topic, width, count);
                break;
            case "callback":
                byCallback(producer, topic, width, count);
                break;
            case "batch":
                byBatch(producer, topic, width, count);
                break;
            default:
                throw new IllegalArgumentException(way);
        }
    }

    private static void byThreads(DefaultMQProducer producer, String topic, int width, int count)
        throws Exception {
        List<Thread> threads = new ArrayList<>();
        for (int i = 0; i < width; i++) {
            Thread thread = new Thread(() -> {
                try {
                    for (int sent = 0; sent < count / width; sent++) {
                        producer.send(new Message(topic, BODY));
                    }
                } catch (Exception e) {
                    e.printStackTrace();
                    System.exit(1);
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void byCallback(DefaultMQProducer producer, String topic, int width, int count)
        throws Exception {
        Semaphore room = new Semaphore(width);
        SendCallback callback = new SendCallback() {
            @Override
            public void onSuccess(SendResult result) {
                room.release();
            }

            @Override
            public void onException(Throwable error) {
                error.printStackTrace();
                System.exit(1);
            }
        };
        for (int i = 0; i < count; i++) {
            room.acquire();
            producer.send(new Message(topic, BODY), callback);
        }
        room.acquire(width);
    }

    private static void byBatch(DefaultMQProducer producer, String topic, int width, int count)
        throws Exception {
        for (int i = 0; i < count / width; i++) {
            List<Message> messages = new ArrayList<>();
            for (int j = 0; j < width; j++) {
                messages.add(new Message(topic, BODY));
            }
            producer.send(messages);
        }
    }

    private static long cpuNanos() {
        return ((com.sun.management.OperatingSystemMXBean)
            ManagementFactory.getOperatingSystemMXBean()).getProcessCpuTime();
    }
}
