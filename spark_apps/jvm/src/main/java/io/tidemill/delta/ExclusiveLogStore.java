package io.tidemill.delta;

import io.delta.storage.HadoopFileSystemLogStore;
import java.io.BufferedOutputStream;
import java.io.File;
import java.io.FileNotFoundException;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.Iterator;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FSDataOutputStreamBuilder;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * A Delta log store whose commit files have exactly one writer.
 *
 * <p>Delta's own stores check if the commit file exists and then create it, so on local disks,
 * volumes and S3 two drivers can both succeed. Here the storage itself decides: with a hard link on
 * {@code file:}, and with a conditional create on {@code s3a:}. If neither is possible (on a volume
 * without hard links), the commit fails; it never falls back to check-then-create.
 *
 * <p>Set as {@code spark.delta.logStore.file.impl} and {@code spark.delta.logStore.s3a.impl}. The
 * class refers to no class of hadoop-aws, so that it loads without that jar.
 */
public class ExclusiveLogStore extends HadoopFileSystemLogStore {

  /** Sends {@code If-None-Match: *} with the upload; since Hadoop 3.4.2. */
  private static final String CONDITIONAL_CREATE = "fs.option.create.conditional.overwrite";

  /** Thrown by s3a when the store answers 412: another writer was first. */
  private static final String LOST_RACE = "org.apache.hadoop.fs.s3a.RemoteFileChangedException";

  /** Called by Delta through reflection. */
  public ExclusiveLogStore(Configuration initialConf) {
    super(initialConf);
  }

  @Override
  public void write(Path path, Iterator<String> actions, Boolean overwrite, Configuration conf)
      throws IOException {
    FileSystem fileSystem = path.getFileSystem(conf);
    String scheme = fileSystem.getUri().getScheme();
    if (scheme.equals("file")) {
      File file = new File(fileSystem.makeQualified(path).toUri().getPath());
      if (overwrite) {
        replace(file, actions);
      } else {
        linkCommit(file, actions);
      }
    } else if (!overwrite && scheme.equals("s3a")) {
      createConditionally(fileSystem, path, actions);
    } else {
      // An overwrite needs no exclusivity, and a rename of abfs is already exclusive.
      writeWithRename(path, actions, overwrite, conf);
    }
  }

  /**
   * Returns false on {@code s3a:}, where a file appears only as a whole. Delta asks before it
   * writes a checkpoint: if a partial one could be read, it writes another file and renames it.
   */
  @Override
  public Boolean isPartialWriteVisible(Path path, Configuration conf) throws IOException {
    return !path.getFileSystem(conf).getUri().getScheme().equals("s3a");
  }

  /**
   * Creates a complete commit file or nothing.
   *
   * <ol>
   *   <li>Write a hidden file, which readers of the log ignore.
   *   <li>Sync it to disk, so that a power cut cannot leave an empty commit.
   *   <li>Link it under the commit's name; the file system lets exactly one writer do this.
   *   <li>Remove the hidden name, whether this writer won or not.
   * </ol>
   */
  private static void linkCommit(File commit, Iterator<String> actions) throws IOException {
    File hidden = hiddenBeside(commit);
    try {
      writeToDisk(hidden, actions); // 1, 2
      Files.createLink(commit.toPath(), hidden.toPath()); // 3
    } finally {
      Files.deleteIfExists(hidden.toPath()); // 4
    }
  }

  /** Replaces a file as a whole; readers may have it open, such as {@code _last_checkpoint}. */
  private static void replace(File file, Iterator<String> actions) throws IOException {
    File hidden = hiddenBeside(file);
    try {
      writeToDisk(hidden, actions);
      // Delete Hadoop's checksum of the old content; without one, nothing is verified.
      Files.deleteIfExists(new File(file.getParentFile(), "." + file.getName() + ".crc").toPath());
      Files.move(hidden.toPath(), file.toPath(), StandardCopyOption.ATOMIC_MOVE);
    } finally {
      Files.deleteIfExists(hidden.toPath());
    }
  }

  private static File hiddenBeside(File file) throws FileNotFoundException {
    File log = file.getParentFile();
    if (!log.isDirectory()) {
      throw new FileNotFoundException("No such directory: " + log);
    }
    return new File(log, "." + file.getName() + "." + UUID.randomUUID() + ".tmp");
  }

  private static void writeToDisk(File file, Iterator<String> actions) throws IOException {
    try (FileOutputStream out = new FileOutputStream(file)) {
      writeLines(actions, out);
      out.getFD().sync();
    }
  }

  private static void createConditionally(FileSystem s3a, Path path, Iterator<String> actions)
      throws IOException {
    FSDataOutputStreamBuilder<?, ?> builder = s3a.createFile(path);
    // Overwrite skips s3a's own check of the path; the condition of the upload decides.
    builder.recursive();
    builder.overwrite(true);
    builder.must(CONDITIONAL_CREATE, true);
    try {
      upload(builder.build(), actions);
    } catch (IOException e) {
      if (!isLostRace(e)) {
        throw e;
      }
      throw (IOException) new FileAlreadyExistsException(path.toString()).initCause(e);
    }
  }

  /** Aborts an incomplete commit, because on s3a, close would publish it. */
  private static void upload(FSDataOutputStream out, Iterator<String> actions) throws IOException {
    try {
      writeLines(actions, out);
    } catch (IOException | RuntimeException e) {
      out.abort();
      throw e;
    }
    out.close();
  }

  private static boolean isLostRace(IOException e) {
    return e instanceof org.apache.hadoop.fs.FileAlreadyExistsException
        || e.getClass().getName().equals(LOST_RACE);
  }

  private static void writeLines(Iterator<String> lines, OutputStream out) throws IOException {
    OutputStream buffered = new BufferedOutputStream(out);
    while (lines.hasNext()) {
      buffered.write((lines.next() + "\n").getBytes(StandardCharsets.UTF_8));
    }
    buffered.flush();
  }
}
