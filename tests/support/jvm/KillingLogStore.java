import io.tidemill.delta.ExclusiveLogStore;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * Delta's own commits, with a SIGKILL to the whole driver at one of them: of the first table that commits once the
 * file TIDEMILL_TEST_ARMED is there. TIDEMILL_TEST_KILL_COMMIT says {@code asked}, before anything of the commit is on
 * disk, or {@code landed}, when it is and nobody has been told.
 */
public class KillingLogStore extends ExclusiveLogStore {
  private static final String KILL = System.getenv("TIDEMILL_TEST_KILL_COMMIT");
  private static final String ARMED = System.getenv("TIDEMILL_TEST_ARMED");

  /** Called by Delta through reflection. */
  public KillingLogStore(Configuration initialConf) {
    super(initialConf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
    boolean isNext = path.getName().endsWith(".json") && new File(ARMED).exists();
    if (isNext && "asked".equals(KILL)) {
      kill();
    }
    super.write(path, actions, overwrite, conf);
    if (isNext && "landed".equals(KILL)) {
      kill();
    }
  }

  /** Python starts Spark's JVM in its own process group, and the tests start Python as the leader of one. */
  private static void kill() {
    long leader = ProcessHandle.current().parent().orElseThrow().pid();
    try {
      new ProcessBuilder("sh", "-c", "kill -s KILL -- -" + leader).start().waitFor();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      // The signal is on its way.
    }
    Runtime.getRuntime().halt(137);
  }
}
