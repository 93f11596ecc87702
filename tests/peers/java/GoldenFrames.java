import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import java.util.Arrays;
import java.util.TreeMap;
import org.apache.rocketmq.common.protocol.RequestCode;
import org.apache.rocketmq.common.protocol.ResponseCode;
import org.apache.rocketmq.common.protocol.header.PullMessageRequestHeader;
import org.apache.rocketmq.common.protocol.header.PullMessageResponseHeader;
import org.apache.rocketmq.common.protocol.header.SendMessageRequestHeaderV2;
import org.apache.rocketmq.common.protocol.header.SendMessageResponseHeader;
import org.apache.rocketmq.common.protocol.header.UpdateConsumerOffsetRequestHeader;
import org.apache.rocketmq.common.protocol.header.namesrv.GetRouteInfoRequestHeader;
import org.apache.rocketmq.common.protocol.header.namesrv.RegisterBrokerRequestHeader;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.protocol.LanguageCode;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;
import org.apache.rocketmq.remoting.protocol.SerializeType;

/**
 * Whole frames, each with both header codecs.
 *
 * <p>"name/JSON" and "name/ROCKETMQ" are RemotingCommand.encode(). Sockets are written by another
 * method; where its bytes differ they are "name/JSON/socket" and "name/ROCKETMQ/socket".
 */
final class GoldenFrames {
    private static final GoldenFile FILE = new GoldenFile();
    private static final String UNICODE =
        "caf\u00e9 \u6d88\u606f \ud83d\ude80 \"quoted\" \\ / \t end";

    private GoldenFrames() {
    }

    /** A frame to be made anew for each codec, since encoding changes the command. */
    private interface Maker {
        RemotingCommand make();
    }

    static GoldenFile record() throws Exception {
        requests();
        responses();
        edges();
        return FILE;
    }

    private static void requests() throws Exception {
        both("send_v2", () -> request(RequestCode.SEND_MESSAGE_V2, sendHeader(),
            "hello comet".getBytes()));
        both("pull", () -> request(RequestCode.PULL_MESSAGE, pullHeader(), null));
        both("heart_beat", () -> request(RequestCode.HEART_BEAT, null,
            GoldenBodies.heartbeat().encode()));
        both("register_broker", () -> request(RequestCode.REGISTER_BROKER, registerHeader(),
            GoldenFile.utf8("{\"filterServerList\":[]}")));
        both("get_routeinfo", () -> {
            GetRouteInfoRequestHeader header = new GetRouteInfoRequestHeader();
            header.setTopic("TopicTest");
            return request(RequestCode.GET_ROUTEINFO_BY_TOPIC, header, null);
        });
        both("update_offset_oneway", () -> {
            UpdateConsumerOffsetRequestHeader header = new UpdateConsumerOffsetRequestHeader();
            header.setConsumerGroup("group_a");
            header.setTopic("TopicTest");
            header.setQueueId(3);
            header.setCommitOffset(123_456_789_012L);
            RemotingCommand command = request(RequestCode.UPDATE_CONSUMER_OFFSET, header, null);
            command.markOnewayRPC();
            return command;
        });
    }

    private static void responses() throws Exception {
        both("send_response", () -> {
            RemotingCommand command =
                RemotingCommand.createResponseCommand(SendMessageResponseHeader.class);
            SendMessageResponseHeader header =
                (SendMessageResponseHeader) command.readCustomHeader();
            header.setMsgId("7F00000100002A9F00000000000001C8");
            header.setQueueId(2);
            header.setQueueOffset(17L);
            return response(command, ResponseCode.SUCCESS, null, null);
        });
        both("pull_response", () -> {
            RemotingCommand command =
                RemotingCommand.createResponseCommand(PullMessageResponseHeader.class);
            PullMessageResponseHeader header =
                (PullMessageResponseHeader) command.readCustomHeader();
            header.setSuggestWhichBrokerId(0L);
            header.setNextBeginOffset(33L);
            header.setMinOffset(0L);
            header.setMaxOffset(4_294_967_296L);
            return response(command, ResponseCode.SUCCESS, "FOUND",
                new byte[] {0, 1, -1, 127, -128});
        });
        both("error_response", () -> response(RemotingCommand.createResponseCommand(null),
            ResponseCode.TOPIC_NOT_EXIST, "no such topic", null));
    }

    private static void edges() throws Exception {
        both("unicode", () -> {
            RemotingCommand command = request(RequestCode.GET_KV_CONFIG, null, null);
            command.setRemark(UNICODE);
            command.addExtField("cl\u00e9", UNICODE);
            command.addExtField("empty", "");
            return command;
        });
        both("no_ext_fields", () -> request(RequestCode.GET_BROKER_CLUSTER_INFO, null, null));
        both("empty_ext_fields", () -> {
            RemotingCommand command = request(RequestCode.GET_BROKER_CLUSTER_INFO, null, null);
            command.setExtFields(new java.util.HashMap<>());
            return command;
        });
        both("empty_body", () -> request(RequestCode.GET_BROKER_CLUSTER_INFO, null, new byte[0]));
        both("empty_remark", () -> response(RemotingCommand.createResponseCommand(null),
            ResponseCode.SYSTEM_ERROR, "", null));
        both("extreme_numbers", () -> {
            RemotingCommand command = request(32767, null, null);
            command.setOpaque(Integer.MIN_VALUE);
            command.setVersion(32767);
            command.setFlag(Integer.MAX_VALUE);
            return command;
        });
        for (LanguageCode language : LanguageCode.values()) {
            both("language_" + language, () -> {
                RemotingCommand command = request(RequestCode.HEART_BEAT, null, null);
                command.setLanguage(language);
                return command;
            });
        }
    }

    private static RemotingCommand request(int code, CommandCustomHeader header, byte[] body) {
        RemotingCommand command = RemotingCommand.createRequestCommand(code, header);
        command.setVersion(407);
        command.setOpaque(1234);
        command.setBody(body);
        return command;
    }

    private static RemotingCommand response(RemotingCommand command, int code, String remark,
        byte[] body) {
        command.setCode(code);
        command.setRemark(remark);
        command.setVersion(407);
        command.setOpaque(1234);
        command.setBody(body);
        return command;
    }

    private static SendMessageRequestHeaderV2 sendHeader() {
        SendMessageRequestHeaderV2 header = new SendMessageRequestHeaderV2();
        header.setA("producer_a");
        header.setB("TopicTest");
        header.setC("TBW102");
        header.setD(4);
        header.setE(2);
        header.setF(0);
        header.setG(1_700_000_000_123L);
        header.setH(0);
        header.setI("KEYS\u0001order-1\u0002UNIQ_KEY\u00017F0000010001070DEA4E6D1B2A3C0000\u0002"
            + "WAIT\u0001true\u0002TAGS\u0001red\u0002");
        header.setJ(0);
        header.setK(false);
        header.setL(16);
        header.setM(false);
        return header;
    }

    private static PullMessageRequestHeader pullHeader() {
        PullMessageRequestHeader header = new PullMessageRequestHeader();
        header.setConsumerGroup("group_a");
        header.setTopic("TopicTest");
        header.setQueueId(1);
        header.setQueueOffset(32L);
        header.setMaxMsgNums(32);
        header.setSysFlag(6);
        header.setCommitOffset(0L);
        header.setSuspendTimeoutMillis(15_000L);
        header.setSubscription("red || blue");
        header.setSubVersion(1_700_000_000_000L);
        header.setExpressionType("TAG");
        return header;
    }

    private static RegisterBrokerRequestHeader registerHeader() {
        RegisterBrokerRequestHeader header = new RegisterBrokerRequestHeader();
        header.setBrokerName("broker-a");
        header.setBrokerAddr("10.0.0.1:10911");
        header.setClusterName("DefaultCluster");
        header.setHaServerAddr("10.0.0.1:10912");
        header.setBrokerId(0L);
        header.setCompressed(false);
        header.setBodyCrc32(-123_456_789);
        return header;
    }

    private static void both(String name, Maker maker) throws Exception {
        for (SerializeType type : SerializeType.values()) {
            RemotingCommand command = maker.make();
            command.setSerializeTypeCurrentRPC(type);
            byte[] plain = GoldenFile.rest(command.encode());
            FILE.bytes(name + "/" + type, plain, describe(command, type));

            RemotingCommand again = maker.make();
            again.setSerializeTypeCurrentRPC(type);
            byte[] socket = socketBytes(again);
            if (!Arrays.equals(plain, socket)) {
                FILE.bytes(name + "/" + type + "/socket", socket, describe(command, type));
            }
        }
    }

    private static byte[] socketBytes(RemotingCommand command) {
        ByteBuf out = Unpooled.buffer();
        command.fastEncodeHeader(out);
        if (command.getBody() != null) {
            out.writeBytes(command.getBody());
        }
        byte[] bytes = new byte[out.readableBytes()];
        out.readBytes(bytes);
        return bytes;
    }

    private static Object describe(RemotingCommand command, SerializeType type) {
        Object fields =
            command.getExtFields() == null ? null : new TreeMap<>(command.getExtFields());
        return Line.of("code", command.getCode(), "language", command.getLanguage().name(),
            "version", command.getVersion(), "opaque", command.getOpaque(),
            "flag", command.getFlag(), "remark", command.getRemark(), "extFields", fields,
            "serializeType", type.name(), "bodyHex", GoldenFile.hex(command.getBody()));
    }
}
