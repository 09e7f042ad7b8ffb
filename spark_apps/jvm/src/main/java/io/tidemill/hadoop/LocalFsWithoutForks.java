package io.tidemill.hadoop;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FsConstants;

/**
 * Opens {@code file:} paths for FileContext: Hadoop's LocalFs, including checksum files, on top of
 * {@link RawLocalFileSystemWithoutForks}.
 *
 * <p>Set as {@code fs.AbstractFileSystem.file.impl}. Spark uses it for checkpoints by default.
 */
public class LocalFsWithoutForks extends ChecksumFs {

  /** Called by Hadoop through reflection. */
  public LocalFsWithoutForks(URI uri, Configuration conf) throws IOException, URISyntaxException {
    super(new RawLocalFs(uri, conf));
  }

  /** Replaces Hadoop's class of this name, whose constructors are not accessible. */
  private static final class RawLocalFs extends DelegateToFileSystem {

    // `false` because a local path has no host.
    RawLocalFs(URI uri, Configuration conf) throws IOException, URISyntaxException {
      super(
          uri,
          new RawLocalFileSystemWithoutForks(),
          conf,
          FsConstants.LOCAL_FS_URI.getScheme(),
          false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1; // A local path has no port.
    }

    @Override
    public boolean isValidName(String src) {
      return true; // Hadoop would refuse names with a colon, which local files may have.
    }
  }
}
