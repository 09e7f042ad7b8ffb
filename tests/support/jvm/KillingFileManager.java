import java.io.FilterOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Spark's files of a checkpoint, with a SIGKILL at one step of one file: to the whole driver, or to its JVM alone if
 * the environment variable TIDEMILL_TEST_KILL is {@code jvm}. TIDEMILL_TEST_KILL_AT names file and step, such as
 * {@code "offsets/3 writing"}:
 *
 * <ol>
 *   <li>{@code opening}: before the temporary file is there
 *   <li>{@code writing}: the first bytes of it are on disk
 *   <li>{@code renaming}: it is complete, and has not got its name
 *   <li>{@code renamed}: it has
 *   <li>{@code purging}, {@code purged}: before and after the file is deleted
 * </ol>
 */
public class KillingFileManager extends FileSystemBasedCheckpointFileManager {
  private static final String KILL_AT = System.getenv("TIDEMILL_TEST_KILL_AT");
  private static final String KILL = System.getenv("TIDEMILL_TEST_KILL");

  /** Called by Spark through reflection. */
  public KillingFileManager(Path path, Configuration conf) {
    super(path, conf);
  }

  @Override
  public FSDataOutputStream createTempFile(Path temporary) {
    Path file = finalName(temporary);
    killAt(file, "opening");
    FSDataOutputStream out = super.createTempFile(temporary);
    return isNext(file, "writing") ? new FSDataOutputStream(new Torn(out, file), null) : out;
  }

  @Override
  public void renameTempFile(Path temporary, Path file, boolean overwrite) {
    killAt(file, "renaming");
    super.renameTempFile(temporary, file, overwrite);
    killAt(file, "renamed");
  }

  @Override
  public void delete(Path file) {
    killAt(file, "purging");
    super.delete(file);
    killAt(file, "purged");
  }

  /** {@code offsets/3} of {@code offsets/.3.<uuid>.tmp}. */
  private static Path finalName(Path temporary) {
    String name = temporary.getName();
    return new Path(temporary.getParent(), name.startsWith(".") ? name.split("\\.")[1] : name);
  }

  private static boolean isNext(Path file, String step) {
    return (file.getParent().getName() + "/" + file.getName() + " " + step).equals(KILL_AT);
  }

  private static void killAt(Path file, String step) {
    if (isNext(file, step)) {
      kill();
    }
  }

  /** Python starts Spark's JVM in its own process group, and the tests start Python as the leader of one. */
  private static void kill() {
    ProcessHandle jvm = ProcessHandle.current();
    long target = "jvm".equals(KILL) ? jvm.pid() : -jvm.parent().orElseThrow().pid();
    try {
      new ProcessBuilder("sh", "-c", "kill -s KILL -- " + target).start().waitFor();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      // The signal is on its way.
    }
    // Nothing of this step may happen any more, however long the signal takes.
    Runtime.getRuntime().halt(137);
  }

  /** Brings what is first written to disk, and kills. */
  private static final class Torn extends FilterOutputStream {
    private final Path file;

    Torn(OutputStream out, Path file) {
      super(out);
      this.file = file;
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
      out.write(bytes, offset, length);
      // A flush alone would leave it in Hadoop's buffer of a checksum's block.
      out.close();
      killAt(file, "writing");
    }
  }
}
