import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentSkipListSet;
import java.util.concurrent.CountDownLatch;
import org.apache.rocketmq.client.consumer.DefaultMQPushConsumer;
import org.apache.rocketmq.client.consumer.listener.ConsumeConcurrentlyStatus;
import org.apache.rocketmq.client.consumer.listener.MessageListenerConcurrently;
import org.apache.rocketmq.common.message.MessageExt;
import org.apache.rocketmq.common.message.MessageQueue;
import org.apache.rocketmq.tools.admin.DefaultMQAdminExt;

/** Groups of several members, and groups whose offsets are moved. */
final class GroupStories {
    static final Map<String, Scenario.Story> TABLE = new LinkedHashMap<>();

    static {
        TABLE.put("Rebalance", GroupStories::rebalance);
        TABLE.put("ResetOnline", GroupStories::resetOnline);
        TABLE.put("ResetOffline", GroupStories::resetOffline);
    }

    private GroupStories() {
    }

    static DefaultMQAdminExt admin(Scenario self) throws Exception {
        DefaultMQAdminExt admin = self.quick(new DefaultMQAdminExt(10_000));
        admin.start();
        return self.owned(admin, admin::shutdown);
    }

    private static Set<String> share(DefaultMQPushConsumer consumer, String topic) {
        Set<String> share = new TreeSet<>();
        for (MessageQueue queue : consumer.getDefaultMQPushConsumerImpl().getRebalanceImpl()
            .getProcessQueueTable().keySet()) {
            if (queue.getTopic().equals(topic)) {
                share.add(queue.getBrokerName() + "/" + queue.getQueueId());
            }
        }
        return share;
    }

    /** Waits until every member holds so many queues of the topic, and tells which. */
    static void awaitShares(Scenario self, List<DefaultMQPushConsumer> members,
        String topic, int each) throws Exception {
        Scenario.await("a fair share of " + each, () -> {
            for (DefaultMQPushConsumer member : members) {
                if (share(member, topic).size() != each) {
                    return false;
                }
            }
            return true;
        });
        for (DefaultMQPushConsumer member : members) {
            self.say("event", "share of " + members.size(), "queues", share(member, topic));
        }
    }

    private static void rebalance(Scenario self) throws Exception {
        String topic = self.topic(6);
        int queueCount = self.queues(topic).size();
        Set<String> seen = new ConcurrentSkipListSet<>();
        List<DefaultMQPushConsumer> members = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
            DefaultMQPushConsumer consumer = self.pushConsumer("Rebalance-takers");
            consumer.subscribe(topic, "*");
            consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
                for (MessageExt message : messages) {
                    seen.add(message.getMsgId());
                }
                return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
            });
            consumer.start();
            members.add(consumer);
        }
        awaitShares(self, members, topic, queueCount / 3);
        self.send(topic, 60);
        members.remove(1).shutdown();
        awaitShares(self, members, topic, queueCount / 2);
        self.send(topic, 60);
        Scenario.await("all messages", () -> seen.size() == 120);
        members.remove(0).shutdown();
        awaitShares(self, members, topic, queueCount);
        self.send(topic, 60);
        Scenario.await("all messages", () -> seen.size() == 180);
        self.say("event", "seen", "count", seen.size());
    }

    private static long sendTwice(Scenario self, String topic) throws Exception {
        self.send(topic, 20);
        // A search by time finds the nearest: what is sent next must be nearer, however slowly.
        Thread.sleep(2500);
        long between = System.currentTimeMillis() - 100;
        self.send(topic, 10);
        return between;
    }

    private static void resetOnline(Scenario self) throws Exception {
        String topic = self.topic(1);
        long between = sendTwice(self, topic);
        CountDownLatch first = new CountDownLatch(30);
        CountDownLatch again = new CountDownLatch(40);
        DefaultMQPushConsumer consumer = self.pushConsumer("ResetOnline-takers");
        consumer.subscribe(topic, "*");
        consumer.registerMessageListener((MessageListenerConcurrently) (messages, context) -> {
            for (MessageExt message : messages) {
                self.said("taken", message);
                first.countDown();
                again.countDown();
            }
            return ConsumeConcurrentlyStatus.CONSUME_SUCCESS;
        });
        consumer.start();
        Scenario.await("all messages", first);
        Scenario.await("committed offsets",
            () -> PushStories.committed(self, consumer, topic) == 30);
        Map<MessageQueue, Long> reset = admin(self).resetOffsetByTimestamp(
            topic, "ResetOnline-takers", between, true);
        for (Map.Entry<MessageQueue, Long> entry : reset.entrySet()) {
            self.say("event", "reset", "offset", entry.getValue());
        }
        Scenario.await("the last ones again", again);
        Scenario.await("committed offsets",
            () -> PushStories.committed(self, consumer, topic) == 30);
    }

    private static void resetOffline(Scenario self) throws Exception {
        String topic = self.topic(1);
        String group = "ResetOffline-takers";
        long between = sendTwice(self, topic);
        CountDownLatch first = new CountDownLatch(30);
        DefaultMQPushConsumer before = PushStories.listen(self, group, topic, "*", first);
        Scenario.await("all messages", first);
        Scenario.await("committed offsets",
            () -> PushStories.committed(self, before, topic) == 30);
        before.shutdown();
        DefaultMQAdminExt admin = admin(self);
        // The broker tells an online group itself; for an absent one the tool has an older way.
        try {
            admin.resetOffsetByTimestamp(topic, group, between, true);
            self.say("event", "reset", "how", "new");
        } catch (Exception offline) {
            self.say("event", "offline", "text", offline.toString());
            admin.resetOffsetByTimestampOld(group, topic, between, true);
            self.say("event", "reset", "how", "old");
        }
        CountDownLatch again = new CountDownLatch(10);
        PushStories.listen(self, group, topic, "*", again);
        Scenario.await("the last ones again", again);
    }
}
