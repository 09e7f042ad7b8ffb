package io.tidemill.hadoop;

import org.apache.hadoop.fs.LocalFileSystem;

/**
 * Opens {@code file:} paths: Hadoop's LocalFileSystem, including checksum files, on top of {@link
 * RawLocalFileSystemWithoutForks}.
 *
 * <p>Set as {@code fs.file.impl}. {@link LocalFsWithoutForks} does the same for FileContext.
 */
public class LocalFileSystemWithoutForks extends LocalFileSystem {

  /** Called by Hadoop through reflection. */
  public LocalFileSystemWithoutForks() {
    super(new RawLocalFileSystemWithoutForks());
  }
}
