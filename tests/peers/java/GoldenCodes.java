import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.TreeSet;
import org.apache.rocketmq.client.producer.LocalTransactionState;
import org.apache.rocketmq.client.producer.SendStatus;
import org.apache.rocketmq.common.MQVersion;
import org.apache.rocketmq.common.MixAll;
import org.apache.rocketmq.common.TopicFilterType;
import org.apache.rocketmq.common.compression.CompressionType;
import org.apache.rocketmq.common.constant.PermName;
import org.apache.rocketmq.common.consumer.ConsumeFromWhere;
import org.apache.rocketmq.common.filter.ExpressionType;
import org.apache.rocketmq.common.message.MessageConst;
import org.apache.rocketmq.common.namesrv.NamesrvUtil;
import org.apache.rocketmq.common.protocol.NamespaceUtil;
import org.apache.rocketmq.common.protocol.RequestCode;
import org.apache.rocketmq.common.protocol.ResponseCode;
import org.apache.rocketmq.common.protocol.body.CMResult;
import org.apache.rocketmq.common.protocol.heartbeat.ConsumeType;
import org.apache.rocketmq.common.protocol.heartbeat.MessageModel;
import org.apache.rocketmq.common.sysflag.MessageSysFlag;
import org.apache.rocketmq.common.sysflag.PullSysFlag;
import org.apache.rocketmq.common.sysflag.SubscriptionSysFlag;
import org.apache.rocketmq.common.sysflag.TopicSysFlag;
import org.apache.rocketmq.common.topic.TopicValidator;
import org.apache.rocketmq.remoting.common.RemotingHelper;
import org.apache.rocketmq.remoting.protocol.LanguageCode;
import org.apache.rocketmq.remoting.protocol.RemotingSysResponseCode;

/** Constants: codes, flags, reserved names. Paths and addresses of a machine are left out. */
final class GoldenCodes {
    private static final GoldenFile FILE = new GoldenFile();

    private GoldenCodes() {
    }

    static GoldenFile record() throws Exception {
        for (Class<?> holder : new Class<?>[] {RemotingSysResponseCode.class, RequestCode.class,
            ResponseCode.class, MessageSysFlag.class, PermName.class, TopicSysFlag.class,
            PullSysFlag.class, SubscriptionSysFlag.class, MixAll.class, TopicValidator.class,
            NamespaceUtil.class, NamesrvUtil.class, MessageConst.class, ExpressionType.class}) {
            FILE.value(holder.getSimpleName(), constants(holder));
        }
        for (Class<?> type : new Class<?>[] {ConsumeFromWhere.class, ConsumeType.class,
            MessageModel.class, CMResult.class, TopicFilterType.class, SendStatus.class,
            LocalTransactionState.class, CompressionType.class}) {
            FILE.value(type.getSimpleName() + ".ordinals", ordinals(type));
        }
        FILE.value("LanguageCode", languages());
        FILE.value("MQVersion", versions());
        FILE.value("PermName.perm2String", permissions());
        FILE.value("SystemTopics", new TreeSet<>(TopicValidator.getSystemTopicSet()));
        FILE.value("NotAllowedSendTopics",
            new TreeSet<>(TopicValidator.getNotAllowedSendTopicSet()));
        FILE.value("PullSysFlag.buildSysFlag", pullFlags());
        FILE.value("DefaultCharset", RemotingHelper.DEFAULT_CHARSET);
        return FILE;
    }

    private static Map<String, Object> constants(Class<?> holder) throws Exception {
        Map<String, Object> found = new LinkedHashMap<>();
        for (Class<?> c = holder; c != Object.class; c = c.getSuperclass()) {
            for (Field field : c.getDeclaredFields()) {
                field.setAccessible(true);
                Object value = Modifier.isStatic(field.getModifiers()) ? field.get(null) : null;
                if (value instanceof Character) {
                    found.putIfAbsent(field.getName(), value.toString());
                } else if ((value instanceof String || value instanceof Number)
                    && !isOfThisMachine(field.getName())) {
                    found.putIfAbsent(field.getName(), value);
                }
            }
        }
        return found;
    }

    private static boolean isOfThisMachine(String name) {
        return name.equals("LOCALHOST") || name.contains("PID") || name.contains("WS_DOMAIN")
            || name.contains("LOOKUP");
    }

    private static Map<String, Object> ordinals(Class<?> type) {
        Map<String, Object> found = new LinkedHashMap<>();
        for (Object constant : type.getEnumConstants()) {
            found.put(((Enum<?>) constant).name(), ((Enum<?>) constant).ordinal());
        }
        return found;
    }

    private static Map<String, Object> languages() {
        Map<String, Object> found = new LinkedHashMap<>();
        for (LanguageCode language : LanguageCode.values()) {
            found.put(language.name(), language.getCode());
        }
        return found;
    }

    private static Map<String, Object> versions() {
        Map<String, Object> found = Line.of("CURRENT_VERSION", MQVersion.CURRENT_VERSION);
        for (MQVersion.Version version : MQVersion.Version.values()) {
            String name = version.name();
            if (name.startsWith("V3_0_11") || name.startsWith("V4_9_")
                || name.startsWith("V5_0_0") || name.equals("HIGHER_VERSION")) {
                found.put(name, version.ordinal());
            }
        }
        return found;
    }

    private static Map<String, Object> permissions() {
        Map<String, Object> found = new LinkedHashMap<>();
        for (int permission = 0; permission < 8; permission++) {
            found.put(String.valueOf(permission), PermName.perm2String(permission));
        }
        return found;
    }

    private static Map<String, Object> pullFlags() {
        return Line.of(
            "commitOffset", PullSysFlag.buildSysFlag(true, false, false, false),
            "suspend", PullSysFlag.buildSysFlag(false, true, false, false),
            "subscription", PullSysFlag.buildSysFlag(false, false, true, false),
            "classFilter", PullSysFlag.buildSysFlag(false, false, false, true),
            "litePull", PullSysFlag.buildSysFlag(false, false, false, false, true));
    }
}
