import io.tidemill.delta.ExclusiveLogStore;
import java.util.Iterator;
import java.util.List;
import java.util.stream.Stream;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/** Prints what the log store answers in each case. Argument: the log's folder. */
public class LogStoreProbe {
  public static void main(String[] arguments) throws Exception {
    Path log = new Path("file://" + arguments[0]);
    Path commit = new Path(log, "00000000000000000000.json");
    tell("new", commit, List.of("first", "line").iterator(), false);
    tell("existing", commit, List.of("second").iterator(), false);
    tell("no_folder", new Path(log, "missing/00000000000000000000.json"), List.of("x").iterator(), false);
    tell("failing", new Path(log, "00000000000000000001.json"), failing(), false);
    tell("overwritten", new Path(log, "_last_checkpoint"), List.of("old").iterator(), true);
    tell("overwritten_again", new Path(log, "_last_checkpoint"), List.of("new").iterator(), true);
  }

  static void tell(String what, Path path, Iterator<String> lines, boolean overwrite) {
    Configuration conf = new Configuration();
    String answer = "written";
    try {
      new ExclusiveLogStore(conf).write(path, lines, overwrite, conf);
    } catch (Exception e) {
      answer = e.getClass().getName();
    }
    System.out.println(what + "=" + answer);
  }

  /** Fails after its first line, as Delta's actions may while they are being written. */
  static Iterator<String> failing() {
    return Stream.of("good", "bad")
        .map(
            line -> {
              if (line.equals("bad")) {
                throw new IllegalStateException(line);
              }
              return line;
            })
        .iterator();
  }
}
