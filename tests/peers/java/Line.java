import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;

/** The two ends of a driver: options from the command line, JSON lines to stdout. */
final class Line {
    private Line() {
    }

    /** An ordered map of the given names and values, in turn. */
    static Map<String, Object> of(Object... namesAndValues) {
        Map<String, Object> map = new LinkedHashMap<>();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            map.put((String) namesAndValues[i], namesAndValues[i + 1]);
        }
        return map;
    }

    static synchronized void print(Object... namesAndValues) {
        System.out.println(JSON.toJSONString(of(namesAndValues),
            SerializerFeature.WriteMapNullValue, SerializerFeature.DisableCircularReferenceDetect));
        System.out.flush();
    }

    /** Arguments of the form name=value, or name alone, from the given position on. */
    static Map<String, String> options(String[] args, int from) {
        Map<String, String> options = new HashMap<>();
        for (int i = from; i < args.length; i++) {
            int sign = args[i].indexOf('=');
            options.put(sign < 0 ? args[i] : args[i].substring(0, sign),
                sign < 0 ? "" : args[i].substring(sign + 1));
        }
        return options;
    }

    /** Returns when stdin has ended: the test wants the program to stop. */
    static void waitForEndOfInput() throws java.io.IOException {
        while (System.in.read() >= 0) {
            continue;
        }
    }
}
