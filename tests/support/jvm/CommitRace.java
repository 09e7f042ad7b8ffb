import io.tidemill.delta.ExclusiveLogStore;
import java.nio.file.FileAlreadyExistsException;
import java.util.List;
import java.util.Scanner;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * One of two racing writers: tries every commit at the same moment as the other one, and prints those that it was told
 * it won. Arguments: the log's folder, this writer's name, how many commits.
 */
public class CommitRace {
  static final long MILLIS_BETWEEN_COMMITS = 3;

  public static void main(String[] arguments) throws Exception {
    Configuration conf = new Configuration();
    ExclusiveLogStore store = new ExclusiveLogStore(conf);
    System.out.println("ready");
    long start = new Scanner(System.in).nextLong();
    for (int version = 0; version < Integer.parseInt(arguments[2]); version++) {
      Path commit = new Path("file://" + arguments[0], String.format("%020d.json", version));
      while (System.currentTimeMillis() < start + version * MILLIS_BETWEEN_COMMITS) {
        Thread.onSpinWait();
      }
      try {
        store.write(commit, List.of(arguments[1]).iterator(), false, conf);
        System.out.println(version);
      } catch (FileAlreadyExistsException e) {
        // The other writer won this one.
      }
    }
  }
}
