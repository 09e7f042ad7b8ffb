package io.tidemill.hadoop;

import org.apache.hadoop.fs.LocalFileSystem;

/**
 * What {@code file:} paths are opened with: Hadoop's LocalFileSystem, checksum files included, on
 * top of {@link RawLocalFileSystemWithoutForks}.
 *
 * <p>Set as {@code fs.file.impl}; its twin for FileContext is {@link LocalFsWithoutForks}.
 */
public class LocalFileSystemWithoutForks extends LocalFileSystem {

  /** Called by Hadoop through reflection. */
  public LocalFileSystemWithoutForks() {
    super(new RawLocalFileSystemWithoutForks());
  }
}
