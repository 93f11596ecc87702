import com.alibaba.fastjson.JSON;
import com.alibaba.fastjson.serializer.SerializerFeature;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;

/** One file of recorded entries: what went into Apache's code, and what came out of it. */
final class GoldenFile {
    private final List<Object> entries = new ArrayList<>();

    void bytes(String name, byte[] out, Object in) {
        entries.add(Line.of("name", name, "hex", hex(out), "value", in));
    }

    void text(String name, String out, Object in) {
        entries.add(Line.of("name", name, "text", out, "value", in));
    }

    void value(String name, Object value) {
        entries.add(Line.of("name", name, "value", value));
    }

    void write(Path folder, String name) throws java.io.IOException {
        String text = JSON.toJSONString(entries, SerializerFeature.WriteMapNullValue,
            SerializerFeature.DisableCircularReferenceDetect);
        Files.write(folder.resolve(name), text.getBytes(StandardCharsets.UTF_8));
    }

    static String hex(byte[] bytes) {
        if (bytes == null) {
            return null;
        }
        StringBuilder text = new StringBuilder(bytes.length * 2);
        for (byte b : bytes) {
            text.append(String.format("%02x", b & 0xff));
        }
        return text.toString();
    }

    static byte[] utf8(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static byte[] rest(ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.get(bytes);
        return bytes;
    }

    /**
     * An object as plain maps and lists, by its fields and without Apache's JSON writer. A map
     * whose keys are not strings becomes a list of {key, value}.
     */
    static Object plain(Object it) throws IllegalAccessException {
        if (it == null || it instanceof String || it instanceof Boolean) {
            return it;
        }
        if (it instanceof Number) {
            return it.getClass().getName().contains("Atomic") ? ((Number) it).longValue() : it;
        }
        if (it instanceof Enum) {
            return ((Enum<?>) it).name();
        }
        if (it instanceof Collection) {
            List<Object> list = new ArrayList<>();
            for (Object element : (Collection<?>) it) {
                list.add(plain(element));
            }
            return list;
        }
        return it instanceof Map ? plainMap((Map<?, ?>) it) : plainFields(it);
    }

    private static Object plainMap(Map<?, ?> it) throws IllegalAccessException {
        Map<String, Object> map = new LinkedHashMap<>();
        List<Object> pairs = new ArrayList<>();
        for (Map.Entry<?, ?> entry : it.entrySet()) {
            if (entry.getKey() instanceof String) {
                map.put((String) entry.getKey(), plain(entry.getValue()));
            } else {
                pairs.add(Line.of("key", plain(entry.getKey()), "value", plain(entry.getValue())));
            }
        }
        return pairs.isEmpty() ? map : pairs;
    }

    private static Object plainFields(Object it) throws IllegalAccessException {
        Map<String, Object> map = new LinkedHashMap<>();
        for (Class<?> c = it.getClass(); c != Object.class; c = c.getSuperclass()) {
            for (Field field : c.getDeclaredFields()) {
                // BrokerData keeps a random generator, which is no part of what it says.
                if (!Modifier.isStatic(field.getModifiers()) && field.getType() != Random.class) {
                    field.setAccessible(true);
                    map.put(field.getName(), plain(field.get(it)));
                }
            }
        }
        return map;
    }

    static Properties properties(String... namesAndValues) {
        Properties properties = new Properties();
        for (int i = 0; i < namesAndValues.length; i += 2) {
            properties.setProperty(namesAndValues[i], namesAndValues[i + 1]);
        }
        return properties;
    }
}
