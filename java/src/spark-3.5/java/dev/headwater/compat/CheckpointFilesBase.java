package dev.headwater.compat;

import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.PathFilter;
import org.apache.hadoop.fs.UnsupportedFileSystemException;
import org.apache.spark.sql.execution.streaming.CheckpointFileManager;
import org.apache.spark.sql.execution.streaming.FileContextBasedCheckpointFileManager;
import org.apache.spark.sql.execution.streaming.FileSystemBasedCheckpointFileManager;

/** Reads and writes checkpoints with another manager. */
public abstract class CheckpointFilesBase implements CheckpointFileManager {
  private final CheckpointFileManager files;

  /**
   * @param byFileSystem false uses Hadoop's file contexts, if they support the file system
   */
  protected CheckpointFilesBase(Path path, Configuration configuration, boolean byFileSystem) {
    files = manager(path, configuration, byFileSystem);
  }

  private static CheckpointFileManager manager(
      Path path, Configuration configuration, boolean byFileSystem) {
    if (!byFileSystem) {
      try {
        return byFileContext(path, configuration);
      } catch (UnsupportedFileSystemException error) {
        return new FileSystemBasedCheckpointFileManager(path, configuration);
      }
    }
    return new FileSystemBasedCheckpointFileManager(path, configuration);
  }

  /** Scala does not declare what its constructors throw. */
  private static CheckpointFileManager byFileContext(Path path, Configuration configuration)
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
}
