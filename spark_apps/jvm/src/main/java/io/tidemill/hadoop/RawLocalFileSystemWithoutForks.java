package io.tidemill.hadoop;

import java.io.File;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.attribute.PosixFileAttributeView;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.Comparator;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, asking the operating system itself where Hadoop starts a program.
 *
 * <p>Without its native library Hadoop forks {@code chmod} for every file it creates and {@code
 * readlink} for every rename through FileContext. A streaming batch does both a dozen times; each
 * fork of a driver costs milliseconds.
 *
 * <p>And where Hadoop's own rename replaces a file, this one refuses, as HDFS and abfs do.
 */
class RawLocalFileSystemWithoutForks extends RawLocalFileSystem {

  @Override
  public void setPermission(Path path, FsPermission permission) throws IOException {
    java.nio.file.Path file = pathToFile(path).toPath();
    PosixFileAttributeView attributes =
        Files.getFileAttributeView(file, PosixFileAttributeView.class);
    // No POSIX view (Windows), or the sticky bit, which java.nio cannot set: Hadoop's own way.
    if (attributes == null || permission.getStickyBit()) {
      super.setPermission(path, permission);
      return;
    }
    try {
      attributes.setPermissions(PosixFilePermissions.fromString(symbols(permission)));
    } catch (NoSuchFileException e) {
      throw (IOException) new FileNotFoundException(file.toString()).initCause(e);
    }
  }

  /**
   * Gives a file a name that no other file has; false if one has it.
   *
   * <p>Spark's checkpoints rely on it: of two drivers that plan the same batch at the same moment,
   * only one may be told that it did, or the other would skip what it planned differently. A link
   * and not a look, because only the file system can decide.
   */
  @Override
  public boolean rename(Path src, Path dst) throws IOException {
    File from = pathToFile(src);
    File to = pathToFile(dst);
    // A checksum is renamed after its file, which has won; one of an earlier file may lie there.
    boolean isChecksum = dst.getName().startsWith(".") && dst.getName().endsWith(".crc");
    if (isChecksum || !from.isFile() || to.isDirectory()) {
      return super.rename(src, dst);
    }
    try {
      Files.createLink(to.toPath(), from.toPath());
    } catch (FileAlreadyExistsException e) {
      return false;
    } catch (NoSuchFileException e) {
      return super.rename(src, dst);
    }
    Files.delete(from.toPath());
    return true;
  }

  /**
   * By name: Spark takes new files in the order of their times, and files of the same time in the
   * order of this list. Object stores also list by name.
   */
  @Override
  public FileStatus[] listStatus(Path path) throws IOException {
    Path folder = named(path);
    FileStatus[] found = super.listStatus(folder);
    UnreadableNames.keep(pathToFile(folder));
    Arrays.sort(found, Comparator.comparing(status -> status.getPath().getName()));
    return found;
  }

  @Override
  public FileStatus getFileStatus(Path path) throws IOException {
    return super.getFileStatus(named(path));
  }

  /**
   * The file that a path means. A path that is escaped as a pattern ({@code \[x\]}) means the file
   * of the name that it matches: Spark's file source also looks at the pattern itself.
   */
  private Path named(Path path) {
    String text = path.toUri().getPath();
    if (text.indexOf('\\') < 0 || pathToFile(path).exists()) {
      return path;
    }
    return new Path("file", null, text.replaceAll("\\\\(.)", "$1"));
  }

  @Override
  public FileStatus getFileLinkStatus(Path path) throws IOException {
    boolean link = Files.isSymbolicLink(pathToFile(path).toPath());
    return link ? super.getFileLinkStatus(path) : getFileStatus(path);
  }

  /** Such as {@code rwxr-x---}; FsPermission's own text would add a {@code t}. */
  private static String symbols(FsPermission permission) {
    return permission.getUserAction().SYMBOL
        + permission.getGroupAction().SYMBOL
        + permission.getOtherAction().SYMBOL;
  }
}
