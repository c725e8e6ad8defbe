package dev.headwater.compat;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;

/** Files in a checkpoint, written as Spark writes its own, on the same file systems. */
public final class CheckpointStore {
  private final CheckpointFileManager files;

  public CheckpointStore(Path folder, Configuration configuration) {
    files = CheckpointFileManager.create(folder, configuration);
  }

  /**
   * Writes a new file; it is complete or does not exist.
   *
   * @throws org.apache.hadoop.fs.FileAlreadyExistsException it exists
   */
  public void add(Path file, byte[] content) throws IOException {
    CheckpointFileManager.CancellableFSDataOutputStream out = files.createAtomic(file, false);
    try {
      out.write(content);
      out.close();
    } catch (IOException | RuntimeException failed) {
      out.cancel();
      throw failed;
    }
  }

  public FSDataInputStream open(Path file) {
    return files.open(file);
  }

  public FileStatus[] list(Path folder, PathFilter filter) {
    return files.list(folder, filter);
  }

  public void mkdirs(Path folder) {
    files.mkdirs(folder);
  }

  public boolean exists(Path path) {
    return files.exists(path);
  }

  public void delete(Path path) {
    files.delete(path);
  }
}
