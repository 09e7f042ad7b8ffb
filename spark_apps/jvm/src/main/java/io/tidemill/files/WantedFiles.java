package io.tidemill.files;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.conf.Configured;
import org.apache.hadoop.fs.GlobFilter;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;

/**
 * Chooses the files of a files source among all files below a folder.
 *
 * <p>Set as {@code mapreduce.input.pathFilter.class} of the session. The option {@code
 * tidemill.files.folder} of a source is the declared path, whose parts may have wildcards. Without
 * it, every file is accepted. Unless {@code tidemill.files.recursive} is true, only folders such as
 * {@code day=2026-01-31} may be between that path and a file.
 */
public final class WantedFiles extends Configured implements PathFilter {

  private List<GlobFilter> folder = List.of();
  private boolean recursive = true;

  @Override
  public void setConf(Configuration conf) {
    super.setConf(conf);
    if (conf == null) {
      return;
    }
    recursive = conf.getBoolean("tidemill.files.recursive", true);
    List<GlobFilter> parts = new ArrayList<>();
    String declared = conf.get("tidemill.files.folder");
    if (declared == null) {
      return;
    }
    for (String part : parts(new Path(declared))) {
      try {
        parts.add(new GlobFilter(part));
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
    folder = parts;
  }

  @Override
  public boolean accept(Path path) {
    List<String> names = parts(path);
    if (names.size() <= folder.size()) {
      return false;
    }
    for (int place = 0; place < folder.size(); place++) {
      if (!folder.get(place).accept(new Path(null, null, "/" + names.get(place)))) {
        return false;
      }
    }
    List<String> between = names.subList(folder.size(), names.size() - 1);
    return recursive || between.stream().allMatch(name -> name.contains("="));
  }

  private static List<String> parts(Path path) {
    List<String> parts = new ArrayList<>();
    for (String part : path.toUri().getPath().split("/")) {
      if (!part.isEmpty()) {
        parts.add(part);
      }
    }
    return parts;
  }
}
