package dev.headwater.spark;

import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * Writes local checkpoints with {@link LocalFiles}; others with Spark's default manager, because
 * the one for file systems can't atomically replace files on all of them.
 */
public final class CheckpointFiles implements CheckpointFileManager {
  private final CheckpointFileManager files;

  public CheckpointFiles(Path path, Configuration configuration) throws IOException {
    files = manager(path, configuration);
  }

  private static CheckpointFileManager manager(Path path, Configuration configuration)
      throws IOException {
    if (path.getFileSystem(configuration) instanceof LocalFileSystem) {
      return new FileSystemBasedCheckpointFileManager(path, configuration);
    }
    try {
      return fileContext(path, configuration);
    } catch (UnsupportedFileSystemException error) {
      return new FileSystemBasedCheckpointFileManager(path, configuration);
    }
  }

  /** Scala does not declare what its constructors throw. */
  private static CheckpointFileManager fileContext(Path path, Configuration configuration)
      throws UnsupportedFileSystemException {
    return new FileContextBasedCheckpointFileManager(path, configuration);
  }

  @Override
  public CancellableFSDataOutputStream createAtomic(Path path, boolean overwriteIfPossible) {
    return files.createAtomic(path, overwriteIfPossible);
  }

  @Override
  public FSDataInputStream open(Path path) {
    return files.open(path);
  }

  @Override
  public FileStatus[] list(Path path, PathFilter filter) {
    return files.list(path, filter);
  }

  @Override
  public void mkdirs(Path path) {
    files.mkdirs(path);
  }

  @Override
  public boolean exists(Path path) {
    return files.exists(path);
  }

  @Override
  public void delete(Path path) {
    files.delete(path);
  }

  @Override
  public boolean isLocal() {
    return files.isLocal();
  }

  @Override
  public Path createCheckpointDirectory() {
    return files.createCheckpointDirectory();
  }

  @Override
  public void close() {
    files.close();
  }
}
