import com.alibaba.fastjson.JSON;
import java.util.LinkedHashMap;
import java.util.Map;
import org.junit.runner.Description;
import org.junit.runner.JUnitCore;
import org.junit.runner.notification.Failure;
import org.junit.runner.notification.RunListener;

/** Runs JUnit 4 classes, in the order of the arguments. Prints one JSON line for each test. */
public final class RunSuite {
    private RunSuite() {
    }

    public static void main(String[] classNames) throws Exception {
        JUnitCore core = new JUnitCore();
        core.addListener(new Results());
        for (String name : classNames) {
            core.run(Class.forName(name));
        }
        // Clients that a failed test left open have threads that would keep the process alive.
        System.exit(0);
    }

    private static final class Results extends RunListener {
        private String outcome;
        private String error;
        private long startedMs;

        @Override
        public void testStarted(Description test) {
            outcome = "passed";
            error = "";
            startedMs = System.currentTimeMillis();
        }

        @Override
        public void testFailure(Failure failure) {
            outcome = "failed";
            error = failure.getTrace();
            if (failure.getDescription().getMethodName() == null) {
                // A failure of @BeforeClass or @AfterClass belongs to no test.
                print(failure.getDescription(), 0);
            }
        }

        @Override
        public void testAssumptionFailure(Failure failure) {
            outcome = "skipped";
            error = String.valueOf(failure.getMessage());
        }

        @Override
        public void testFinished(Description test) {
            print(test, System.currentTimeMillis() - startedMs);
        }

        @Override
        public void testIgnored(Description test) {
            outcome = "ignored";
            error = "";
            print(test, 0);
        }

        private void print(Description test, long tookMs) {
            Map<String, Object> line = new LinkedHashMap<>();
            line.put("class", test.getClassName());
            line.put("method", test.getMethodName() == null ? "" : test.getMethodName());
            line.put("outcome", outcome);
            line.put("ms", tookMs);
            line.put("error", error);
            System.out.println(JSON.toJSONString(line));
            System.out.flush();
        }
    }
}
