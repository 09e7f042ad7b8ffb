import java.nio.charset.StandardCharsets;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Two drivers plan the same batch, each past its look whether it is planned: renames a second file to the name of a
 * first one, and prints what it was told. Arguments: a folder, fs.file.impl.
 */
public class RenameProbe {
  public static void main(String[] arguments) throws Exception {
    Configuration conf = new Configuration();
    conf.set("fs.file.impl", arguments[1]);
    Path folder = new Path("file://" + arguments[0]);
    FileSystem files = FileSystem.get(folder.toUri(), conf);
    for (String driver : new String[] {"one", "other"}) {
      Path temporary = new Path(folder, ".7." + driver + ".tmp");
      try (FSDataOutputStream out = files.create(temporary)) {
        out.write(driver.getBytes(StandardCharsets.UTF_8));
      }
      System.out.println(driver + "=" + files.rename(temporary, new Path(folder, "7")));
    }
  }
}
