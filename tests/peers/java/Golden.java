import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.Paths;

/** Records what Apache's classes write, one JSON file per subject, into the folder given. */
public final class Golden {
    public static void main(String[] args) throws Exception {
        Path folder = Paths.get(args[0]);
        Files.createDirectories(folder);
        GoldenFrames.record().write(folder, "frames.json");
        GoldenHeaders.record().write(folder, "headers.json");
        GoldenCodes.record().write(folder, "codes.json");
        GoldenBodies.record().write(folder, "bodies.json");
        GoldenRegister.record().write(folder, "register_body.json");
        GoldenRecords.record().write(folder, "records.json");
        GoldenIds.record().write(folder, "ids.json");
        System.exit(0);
    }
}
