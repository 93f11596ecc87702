import org.apache.rocketmq.client.Validators;
import org.apache.rocketmq.client.exception.MQClientException;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.protocol.NamespaceUtil;
import org.apache.rocketmq.common.topic.TopicValidator;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Which names of topics and groups pass, and how namespaces are put on and taken off. */
final class GoldenNames {
    private static final String[] NAMES = {"TopicTest", "a", "A-b_c", "with space", "", " ", "\t",
        "a.b", "a|b", "a%b", "%", "|", "-", "_", "a/b", "a:b", "a*b", "a?b", "a$b", "a^b", "a#b",
        "a@b", "a+b", "t\u00e9l\u00e9", "\u6d88\u606f", "\ud83d\ude80", "0123456789",
        "T".repeat(127), "T".repeat(128), "T".repeat(255), "T".repeat(256), "TBW102",
        "SCHEDULE_TOPIC_XXXX", "BenchmarkTest", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRACE_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC", "TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT", "rmq_sys_anything", "rmq_sys_", "RMQ_SYS_other", "%RETRY%group_a",
        "%DLQ%group_a", "a\nb", "a\u0000b", "DEFAULT_CONSUMER", "DEFAULT_PRODUCER", "%LMQ%queue",
        "CID_RMQ_SYS_x", "CID_RMQ_SYS_TRANS", "TOOLS_CONSUMER"};
    private static final String[] RESOURCES = {"TopicTest", "ns%TopicTest", "other%TopicTest",
        "%RETRY%group_a", "%DLQ%group_a", "%RETRY%ns%group_a", "%DLQ%ns%group_a",
        "%RETRY%%DLQ%x", "TBW102", "rmq_sys_x", "CID_RMQ_SYS_x", "ns%", "%x", ""};

    private GoldenNames() {
    }

    private interface Check {
        void run() throws MQClientException;
    }

    static void record(GoldenFile file) {
        int rank = 0;
        for (String name : NAMES) {
            file.value("name/" + rank++, Line.of("name", name,
                "clientTopicOk", passes(() -> Validators.checkTopic(name)),
                "clientGroupOk", passes(() -> Validators.checkGroup(name)),
                "clientSendAllowed", passes(() -> Validators.isNotAllowedSendTopic(name)),
                "brokerTopicOk", TopicValidator.validateTopic(name, response()),
                "systemTopic", TopicValidator.isSystemTopic(name),
                "sendForbidden", TopicValidator.isNotAllowedSendTopic(name),
                "systemGroup", MixAll.isSysConsumerGroup(name), "lmq", MixAll.isLmq(name)));
        }
        rank = 0;
        for (String resource : RESOURCES) {
            for (String namespace : new String[] {"ns", ""}) {
                file.value("namespace/" + rank++, Line.of("resource", resource,
                    "namespace", namespace,
                    "wrapped", NamespaceUtil.wrapNamespace(namespace, resource),
                    "wrappedRetry", NamespaceUtil.wrapNamespaceAndRetry(namespace, resource),
                    "without", NamespaceUtil.withoutNamespace(resource),
                    "withoutThis", NamespaceUtil.withoutNamespace(resource, namespace),
                    "has", NamespaceUtil.isAlreadyWithNamespace(resource, namespace),
                    "namespaceOf", NamespaceUtil.getNamespaceFromResource(resource)));
            }
        }
        for (String group : new String[] {"group_a", "ns%group_a", "%RETRY%group_a"}) {
            file.value("special_topics/" + group, Line.of("group", group,
                "retry", MixAll.getRetryTopic(group), "dlq", MixAll.getDLQTopic(group),
                "reply", MixAll.getReplyTopic(group)));
        }
        for (String address : new String[] {"10.0.0.1:10911", "[2001:db8::1]:10911"}) {
            file.text("second_port/" + address, MixAll.brokerVIPChannel(true, address), address);
        }
    }

    private static boolean passes(Check check) {
        try {
            check.run();
            return true;
        } catch (MQClientException e) {
            return false;
        }
    }

    private static RemotingCommand response() {
        return RemotingCommand.createResponseCommand(null);
    }
}
