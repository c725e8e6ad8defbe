package dev.headwater.spark;

import dev.headwater.compat.CheckpointFilesBase;
import java.io.IOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;

/**
 * Writes local checkpoints with {@link LocalFiles}; others with Spark's default manager, because
 * the one for file systems can't atomically replace files on all of them.
 */
public final class CheckpointFiles extends CheckpointFilesBase {
  public CheckpointFiles(Path path, Configuration configuration) throws IOException {
    super(path, configuration, path.getFileSystem(configuration) instanceof LocalFileSystem);
  }
}
