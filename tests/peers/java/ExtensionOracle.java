import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.JSONObject;
import java.nio.file.Files;
import java.nio.file.Paths;
import org.apache.rocketmq.store.ConsumeQueueExt;
import org.apache.rocketmq.store.ConsumeQueueExt.CqExtUnit;

/**
 * Opens the extension of queue 0 of topic T as Apache's store does, and follows the lines of a
 * file: {get: address}, {put: [tag code, stored ms, hex of the bits]}, {cut: address}.
 */
public final class ExtensionOracle {
    public static void main(String[] args) throws Exception {
        ConsumeQueueExt extension =
            new ConsumeQueueExt("T", 0, args[0], Integer.parseInt(args[1]), 64);
        if (!extension.load()) {
            throw new IllegalStateException("the files cannot be loaded");
        }
        extension.recover();
        Line.print("end", extension.getMaxAddress(), "first", extension.getMinAddress());
        for (String line : Files.readAllLines(Paths.get(args[2]))) {
            follow(extension, JSON.parseObject(line));
        }
        extension.flush(0);
        System.exit(0);
    }

    private static void follow(ConsumeQueueExt extension, JSONObject step) {
        if (step.containsKey("get")) {
            CqExtUnit unit = extension.get(step.getLongValue("get"));
            if (unit == null) {
                Line.print("found", false);
                return;
            }
            Line.print("found", true, "tag", unit.getTagsCode(), "stored", unit.getMsgStoreTime(),
                "bits", GoldenFile.hex(unit.getFilterBitMap()));
        } else if (step.containsKey("cut")) {
            extension.truncateByMaxAddress(step.getLongValue("cut"));
            Line.print("end", extension.getMaxAddress());
        } else {
            byte[] bits = bytes(step.getJSONArray("put").getString(2));
            Line.print("address", extension.put(new CqExtUnit(
                step.getJSONArray("put").getLong(0), step.getJSONArray("put").getLong(1),
                bits.length == 0 ? null : bits)));
        }
    }

    private static byte[] bytes(String hex) {
        byte[] bytes = new byte[hex.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(hex.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
    }
}
