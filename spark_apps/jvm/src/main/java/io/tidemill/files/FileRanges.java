package io.tidemill.files;

import java.io.Serializable;
import java.util.Locale;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.Job;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.OutputWriterFactory;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Map;
import scala.collection.immutable.Seq;
import scala.runtime.AbstractFunction1;

/**
 * A file format of Spark that reads no file: it returns one row without values for each range of a
 * file. Spark lists the files, remembers them in the checkpoint and splits large ones into ranges.
 * {@code _metadata} identifies the range of a row. Python tasks read the bytes.
 *
 * <p>Used as {@code format("io.tidemill.files.FileRanges")}. With the option {@code splittable}, a
 * file may become several ranges.
 */
public final class FileRanges implements FileFormat, Serializable {

  private static final long serialVersionUID = 1L;

  /** Extensions of compressed files, which can only be read from the beginning. */
  private static final Set<String> COMPRESSED =
      Set.of("gz", "gzip", "bz2", "zst", "xz", "deflate", "zlib", "lz4", "snappy", "lzo");

  @Override
  public boolean isSplitable(SparkSession session, Map<String, String> options, Path path) {
    String name = path.getName();
    String suffix = name.substring(name.lastIndexOf('.') + 1).toLowerCase(Locale.ROOT);
    Option<String> splittable = options.get("splittable");
    return splittable.isDefined()
        && splittable.get().equals("true")
        && !COMPRESSED.contains(suffix);
  }

  @Override
  public Function1<PartitionedFile, Iterator<InternalRow>> buildReader(
      SparkSession session,
      StructType dataSchema,
      StructType partitionSchema,
      StructType requiredSchema,
      Seq<Filter> filters,
      Map<String, String> options,
      Configuration configuration) {
    return new OneRow(requiredSchema.length());
  }

  @Override
  public Option<StructType> inferSchema(
      SparkSession session, Map<String, String> options, Seq<FileStatus> files) {
    return Option.empty();
  }

  @Override
  public OutputWriterFactory prepareWrite(
      SparkSession session, Job job, Map<String, String> options, StructType dataSchema) {
    throw new UnsupportedOperationException("FileRanges writes no files");
  }

  /** Returns one row of nulls for each range. */
  private static final class OneRow extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>>
      implements Serializable {

    private static final long serialVersionUID = 1L;

    private final int columns;

    OneRow(int columns) {
      this.columns = columns;
    }

    @Override
    public Iterator<InternalRow> apply(PartitionedFile range) {
      InternalRow row = new GenericInternalRow(new Object[columns]);
      return scala.collection.Iterator$.MODULE$.single(row);
    }
  }
}
