package org.apache.rocketmq.test.base;

import java.util.ArrayList;
import java.util.List;
import org.apache.rocketmq.client.producer.TransactionListener;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.test.client.rmq.RMQAsyncSendProducer;
import org.apache.rocketmq.test.client.rmq.RMQNormalConsumer;
import org.apache.rocketmq.test.client.rmq.RMQNormalProducer;
import org.apache.rocketmq.test.client.rmq.RMQTransactionalProducer;
import org.apache.rocketmq.test.clientinterface.AbstractMQConsumer;
import org.apache.rocketmq.test.clientinterface.AbstractMQProducer;
import org.apache.rocketmq.test.factory.ConsumerFactory;
import org.apache.rocketmq.test.listener.AbstractListener;
import org.apache.rocketmq.test.util.MQAdmin;
import org.apache.rocketmq.test.util.MQRandomUtils;

/**
 * Replaces the class of the same name in Apache's test jar, which starts servers in its own process.
 * This one takes the addresses of running servers from system properties, so that the integration
 * tests run against any cluster. It must precede Apache's jar on the class path.
 */
public class BaseConf {
    public static String nsAddr = required("suite.namesrv");
    protected static String clusterName = required("suite.cluster");
    protected static String broker1Name = required("suite.broker1");
    protected static String broker2Name = required("suite.broker2");
    protected static int brokerNum = 2;
    /** Seconds, and milliseconds: what the tests expect these to be. */
    protected static int waitTime = 5;
    protected static int consumeTime = 120_000;
    protected static List<Object> mqClients = new ArrayList<>();
    protected static boolean debug = false;

    static {
        System.setProperty("rocketmq.remoting.version", String.valueOf(MQVersion.CURRENT_VERSION));
    }

    private static String required(String name) {
        String value = System.getProperty(name);
        if (value == null) {
            throw new IllegalStateException("system property " + name + " is not set");
        }
        return value;
    }

    public static String initTopic() {
        return initTopicWithName(MQRandomUtils.getRandomTopic());
    }

    public static String initTopicWithName(String topic) {
        IntegrationTestBase.initTopic(topic, nsAddr, clusterName);
        return topic;
    }

    public static String initConsumerGroup() {
        return initConsumerGroup(MQRandomUtils.getRandomConsumerGroup());
    }

    public static String initConsumerGroup(String group) {
        MQAdmin.createSub(nsAddr, clusterName, group);
        return group;
    }

    public static RMQNormalProducer getProducer(String namesrv, String topic) {
        return getProducer(namesrv, topic, false);
    }

    public static RMQNormalProducer getProducer(String namesrv, String topic, boolean useTls) {
        return remember(new RMQNormalProducer(namesrv, topic, useTls));
    }

    public static RMQNormalProducer getProducer(
            String namesrv, String topic, String group, String instance) {
        return remember(new RMQNormalProducer(namesrv, topic, group, instance));
    }

    public static RMQTransactionalProducer getTransactionalProducer(
            String namesrv, String topic, TransactionListener listener) {
        return remember(new RMQTransactionalProducer(namesrv, topic, false, listener));
    }

    public static RMQAsyncSendProducer getAsyncProducer(String namesrv, String topic) {
        return remember(new RMQAsyncSendProducer(namesrv, topic));
    }

    public static RMQNormalConsumer getConsumer(
            String namesrv, String topic, String filter, AbstractListener listener) {
        return getConsumer(namesrv, topic, filter, listener, false);
    }

    public static RMQNormalConsumer getConsumer(
            String namesrv, String topic, String filter, AbstractListener listener, boolean useTls) {
        return getConsumer(namesrv, initConsumerGroup(), topic, filter, listener, useTls);
    }

    public static RMQNormalConsumer getConsumer(
            String namesrv, String group, String topic, String filter, AbstractListener listener) {
        return getConsumer(namesrv, group, topic, filter, listener, false);
    }

    public static RMQNormalConsumer getConsumer(
            String namesrv, String group, String topic, String filter, AbstractListener listener,
            boolean useTls) {
        return remember(ConsumerFactory.getRMQNormalConsumer(
            namesrv, group, topic, filter, listener, useTls));
    }

    private static <T> T remember(T client) {
        mqClients.add(client);
        return client;
    }

    /** Stops all clients of the test class; one that cannot stop does not keep the others. */
    public static void shutdown() {
        List<Object> started = new ArrayList<>(mqClients);
        mqClients.clear();
        for (Object client : started) {
            try {
                if (client instanceof AbstractMQProducer) {
                    ((AbstractMQProducer) client).shutdown();
                } else {
                    ((AbstractMQConsumer) client).shutdown();
                }
            } catch (RuntimeException failure) {
                failure.printStackTrace();
            }
        }
    }
}
