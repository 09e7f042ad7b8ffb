import java.nio.charset.StandardCharsets;
import java.util.Scanner;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Writes and lists through Hadoop's client of an object store, and prints what it reads. Arguments: a file to read, a
 * file to write; the lines of standard input are Hadoop's settings.
 */
public class StorageProbe {
  public static void main(String[] arguments) throws Exception {
    Configuration conf = new Configuration();
    Scanner input = new Scanner(System.in);
    while (input.hasNextLine()) {
      String line = input.nextLine();
      conf.set(line.substring(0, line.indexOf('=')), line.substring(line.indexOf('=') + 1));
    }
    Path there = new Path(arguments[0]);
    FileSystem store = there.getFileSystem(conf);
    try (FSDataInputStream file = store.open(there)) {
      System.out.println(new String(file.readAllBytes(), StandardCharsets.UTF_8));
    }
    try (FSDataOutputStream file = store.create(new Path(arguments[1]), false)) {
      file.write("from the JVM".getBytes(StandardCharsets.UTF_8));
    }
    System.out.println(store.listStatus(new Path(arguments[1]).getParent()).length);
    // Threads of the clients of object stores would keep the process alive.
    System.exit(0);
  }
}
