import java.io.File;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import org.apache.rocketmq.remoting.CommandCustomHeader;
import org.apache.rocketmq.remoting.annotation.CFNotNull;
import org.apache.rocketmq.remoting.protocol.FastCodesHeader;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Every header class: its fields in the order of declaration, and what it becomes on the wire. */
final class GoldenHeaders {
    private static final String PACKAGE = "org/apache/rocketmq/common/protocol/header/";

    private GoldenHeaders() {
    }

    static GoldenFile record() throws Exception {
        GoldenFile file = new GoldenFile();
        for (String name : classNames()) {
            Class<?> type = Class.forName(name);
            if (CommandCustomHeader.class.isAssignableFrom(type) && !type.isInterface()
                && !Modifier.isAbstract(type.getModifiers())) {
                file.value(type.getSimpleName(), describe(type));
            }
        }
        return file;
    }

    private static List<String> classNames() throws Exception {
        File jar = new File(org.apache.rocketmq.common.MixAll.class.getProtectionDomain()
            .getCodeSource().getLocation().toURI());
        List<String> names = new ArrayList<>();
        try (JarFile open = new JarFile(jar)) {
            for (JarEntry entry : Collections.list(open.entries())) {
                String path = entry.getName();
                if (path.startsWith(PACKAGE) && path.endsWith(".class") && !path.contains("$")) {
                    names.add(path.substring(0, path.length() - 6).replace('/', '.'));
                }
            }
        }
        Collections.sort(names);
        return names;
    }

    private static Object describe(Class<?> type) throws Exception {
        CommandCustomHeader header =
            (CommandCustomHeader) type.getDeclaredConstructor().newInstance();
        Object ofDefaults = extFields(header);
        List<Object> fields = new ArrayList<>();
        Map<String, Object> sample = new LinkedHashMap<>();
        for (Field field : wireFields(type)) {
            field.setAccessible(true);
            fields.add(Line.of("name", field.getName(), "type", field.getType().getSimpleName(),
                "required", field.isAnnotationPresent(CFNotNull.class),
                "default", GoldenFile.plain(field.get(header))));
        }
        int rank = 1;
        for (Field field : wireFields(type)) {
            field.setAccessible(true);
            field.set(header, sampleValue(field, rank++));
            sample.put(field.getName(), GoldenFile.plain(field.get(header)));
        }
        return Line.of("class", type.getName(), "fast", header instanceof FastCodesHeader,
            "fields", fields, "extFieldsOfDefaults", ofDefaults, "sample", sample,
            "extFieldsOfSample", extFields(header));
    }

    private static List<Field> wireFields(Class<?> type) {
        List<Field> fields = new ArrayList<>();
        for (Class<?> c = type; c != Object.class; c = c.getSuperclass()) {
            for (Field field : c.getDeclaredFields()) {
                if (!Modifier.isStatic(field.getModifiers())) {
                    fields.add(field);
                }
            }
        }
        return fields;
    }

    private static Object sampleValue(Field field, int rank) {
        Class<?> type = field.getType();
        if (type == String.class) {
            return field.getName() + "_" + rank;
        } else if (type == int.class || type == Integer.class) {
            return 100 + rank;
        } else if (type == long.class || type == Long.class) {
            return 10_000_000_000L + rank;
        } else if (type == boolean.class || type == Boolean.class) {
            return rank % 2 == 1;
        }
        return null; // a list: the bodies of access control only, which have no form as a header
    }

    private static Object extFields(CommandCustomHeader header) {
        RemotingCommand command = RemotingCommand.createRequestCommand(1, header);
        command.makeCustomHeaderToNet();
        return command.getExtFields() == null ? null : new TreeMap<>(command.getExtFields());
    }
}
