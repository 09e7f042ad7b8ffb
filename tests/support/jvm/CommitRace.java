import io.delta.storage.LogStore;
import java.nio.file.FileAlreadyExistsException;
import java.util.List;
import java.util.Scanner;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;

/**
 * One of two racing writers: tries every commit at the same moment as the other one, and prints those that it was told
 * it won. Arguments: the log store's class, the log's folder, this writer's name, how many commits, milliseconds
 * between them; the lines of standard input up to the number that says when to begin are Hadoop's settings.
 */
public class CommitRace {
  public static void main(String[] arguments) throws Exception {
    Scanner input = new Scanner(System.in);
    Configuration conf = new Configuration();
    String line = input.nextLine();
    for (; line.contains("="); line = input.nextLine()) {
      conf.set(line.substring(0, line.indexOf('=')), line.substring(line.indexOf('=') + 1));
    }
    Class<?> kind = Class.forName(arguments[0]);
    LogStore store = (LogStore) kind.getConstructor(Configuration.class).newInstance(conf);
    Path log = new Path(arguments[1]);
    log.getFileSystem(conf).mkdirs(log);
    System.out.println("ready");
    long start = input.nextLong();
    for (int version = 0; version < Integer.parseInt(arguments[3]); version++) {
      Path commit = new Path(log, String.format("%020d.json", version));
      while (System.currentTimeMillis() < start + version * Long.parseLong(arguments[4])) {
        Thread.onSpinWait();
      }
      try {
        store.write(commit, List.of(arguments[2]).iterator(), false, conf);
        System.out.println(version);
      } catch (FileAlreadyExistsException e) {
        // The other writer won this one.
      }
    }
    // Threads of the clients of object stores would keep the process alive.
    System.exit(0);
  }
}
