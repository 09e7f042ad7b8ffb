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
 * Hadoop's local file system, with calls of the operating system instead of forked programs.
 *
 * <p>Without its native library, Hadoop forks {@code chmod} for every file that it creates and
 * {@code readlink} for every rename through FileContext. A streaming batch does both a dozen times,
 * and each fork of a driver costs milliseconds.
 *
 * <p>Hadoop's own rename replaces an existing file. This one refuses, as HDFS and abfs do.
 */
class RawLocalFileSystemWithoutForks extends RawLocalFileSystem {

  @Override
  public void setPermission(Path path, FsPermission permission) throws IOException {
    java.nio.file.Path file = pathToFile(path).toPath();
    PosixFileAttributeView attributes =
        Files.getFileAttributeView(file, PosixFileAttributeView.class);
    // Use Hadoop's way without a POSIX view (Windows), or for the sticky bit, which java.nio lacks.
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
   * Renames a file to a new name; returns false if another file has that name.
   *
   * <p>Spark's checkpoints rely on it: if two drivers plan the same batch at the same time, only
   * one may succeed. Otherwise records could be skipped, because the two plans can differ. It uses
   * a link instead of a check, because only the file system can decide.
   */
  @Override
  public boolean rename(Path src, Path dst) throws IOException {
    File from = pathToFile(src);
    File to = pathToFile(dst);
    // A checksum is renamed after its file, which has won. It may replace an old file's checksum.
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
   * Returns the files sorted by name. Spark reads new files in the order of their times, and files
   * with the same time in the order of this list. Object stores also list by name.
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
   * Returns the file that a path names. A path that is escaped as a pattern ({@code \[x\]}) names
   * the file that it matches, because Spark's file source also checks the pattern itself.
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

  /** Returns a text such as {@code rwxr-x---}; FsPermission's own text would add a {@code t}. */
  private static String symbols(FsPermission permission) {
    return permission.getUserAction().SYMBOL
        + permission.getGroupAction().SYMBOL
        + permission.getOtherAction().SYMBOL;
  }
}
