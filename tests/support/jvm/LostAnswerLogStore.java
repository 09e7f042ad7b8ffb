import io.tidemill.delta.ExclusiveLogStore;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.util.Iterator;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * A store that takes one commit and whose answer is lost. The environment variable TIDEMILL_TEST_LOST_ANSWER names the
 * commit and what the writer hears instead: {@code "2 timeout"}, or {@code "2 exists"} where a client asked again by
 * itself and so met its own file.
 */
public class LostAnswerLogStore extends ExclusiveLogStore {
  private static final String LOST = System.getenv("TIDEMILL_TEST_LOST_ANSWER");

  /** Called by Delta through reflection. */
  public LostAnswerLogStore(Configuration initialConf) {
    super(initialConf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf) throws IOException {
    super.write(path, actions, overwrite, conf);
    String[] lost = LOST.split(" ");
    if (!path.getName().equals(String.format("%020d.json", Long.parseLong(lost[0])))) {
      return;
    }
    if (lost[1].equals("exists")) {
      throw new FileAlreadyExistsException(path.toString());
    }
    throw new IOException("Read timed out");
  }
}
