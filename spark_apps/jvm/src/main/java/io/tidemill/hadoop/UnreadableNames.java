package io.tidemill.hadoop;

import java.io.File;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentSkipListMap;
import java.util.stream.Stream;

/**
 * Files that Java cannot open because their names are not UTF-8: Java replaces a byte of the name.
 * Hadoop leaves them out of a listing.
 */
public final class UnreadableNames {

  private static final String REPLACED = "\uFFFD";

  private static final Map<String, List<String>> BY_FOLDER = new ConcurrentSkipListMap<>();

  private UnreadableNames() {}

  /** Stores the names in the newest listing of a folder; Spark ignores hidden files. */
  static void keep(File folder) {
    String[] names = folder.list();
    List<String> unreadable =
        Stream.of(names == null ? new String[0] : names)
            .filter(name -> name.contains(REPLACED) && !name.startsWith(".") && !name.startsWith("_"))
            .map(name -> new File(folder, name))
            .filter(file -> !file.exists())
            .map(File::getPath)
            .sorted()
            .toList();
    if (unreadable.isEmpty()) {
      BY_FOLDER.remove(folder.getPath());
    } else {
      BY_FOLDER.put(folder.getPath(), unreadable);
    }
  }

  /** Returns the paths in all folders that this process has listed; each such byte is replaced. */
  public static List<String> paths() {
    return BY_FOLDER.values().stream().flatMap(List::stream).toList();
  }
}
