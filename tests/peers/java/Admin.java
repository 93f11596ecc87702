import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.rocketmq.tools.command.MQAdminStartup;

/**
 * Runs admin commands, one a line, its words separated by tabs, in one JVM: starting one takes
 * longer than most commands. Prints a JSON line per command with all that it printed.
 */
public class Admin {
    public static void main(String[] arguments) throws Exception {
        PrintStream out = System.out;
        PrintStream err = System.err;
        BufferedReader commands =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ByteArrayOutputStream printed = new ByteArrayOutputStream();
            PrintStream capture = new PrintStream(printed, true, "UTF-8");
            System.setOut(capture);
            System.setErr(capture);
            try {
                MQAdminStartup.main0(line.split("\t"), null);
            } finally {
                System.setOut(out);
                System.setErr(err);
            }
            Line.print("printed", printed.toString("UTF-8"));
        }
        System.exit(0);  // threads of the client would keep it alive for seconds
    }
}
