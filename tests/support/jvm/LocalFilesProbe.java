import java.nio.charset.StandardCharsets;
import java.util.EnumSet;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.CreateFlag;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileContext;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Options;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.permission.FsPermission;

/** Does with local files what Spark does. Arguments: a folder, fs.file.impl, fs.AbstractFileSystem.file.impl. */
public class LocalFilesProbe {
  public static void main(String[] arguments) throws Exception {
    Configuration conf = new Configuration();
    conf.set("fs.file.impl", arguments[1]);
    conf.set("fs.AbstractFileSystem.file.impl", arguments[2]);
    Path folder = new Path("file://" + arguments[0]);

    FileSystem files = FileSystem.get(folder.toUri(), conf);
    files.mkdirs(new Path(folder, "made"), new FsPermission((short) 0750));
    FsPermission mode = new FsPermission((short) 0640);
    try (FSDataOutputStream out =
        files.create(new Path(folder, "unfinished"), mode, true, 4096, (short) 1, 4096L, null)) {
      out.write("rows\n".getBytes(StandardCharsets.UTF_8));
    }
    files.rename(new Path(folder, "unfinished"), new Path(folder, "made/part-0"));

    FileContext context = FileContext.getFileContext(folder.toUri(), conf);
    Path temporary = new Path(folder, ".7.tmp");
    try (FSDataOutputStream out = context.create(temporary, EnumSet.of(CreateFlag.CREATE))) {
      out.write("offsets\n".getBytes(StandardCharsets.UTF_8));
    }
    context.rename(temporary, new Path(folder, "7"), Options.Rename.NONE);
  }
}
