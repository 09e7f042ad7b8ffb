package io.tidemill.files;

import org.apache.spark.sql.execution.datasources.FileIndex;
import org.apache.spark.sql.execution.datasources.FileStatusWithMetadata;
import org.apache.spark.sql.execution.datasources.PartitionDirectory;
import scala.collection.Iterator;
import scala.collection.immutable.Nil$;

/** The files that a scan reads, as one text: a call for each file would be slow from Python. */
public final class FileListing {

  private FileListing() {}

  /** Size, modification time in milliseconds and path of each file. A NUL, which no path has, ends each. */
  @SuppressWarnings("unchecked")
  public static String of(FileIndex index) {
    StringBuilder text = new StringBuilder();
    Iterator<PartitionDirectory> folders =
        index
            .listFiles(
                (scala.collection.immutable.Seq) Nil$.MODULE$,
                (scala.collection.immutable.Seq) Nil$.MODULE$)
            .iterator();
    while (folders.hasNext()) {
      Iterator<FileStatusWithMetadata> files = folders.next().files().iterator();
      while (files.hasNext()) {
        FileStatusWithMetadata file = files.next();
        text.append(file.getLen()).append('\0');
        text.append(file.getModificationTime()).append('\0');
        text.append(file.getPath()).append('\0');
      }
    }
    return text.toString();
  }
}
