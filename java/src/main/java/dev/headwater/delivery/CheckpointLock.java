package dev.headwater.delivery;

import java.io.IOException;
import java.nio.channels.FileChannel;
import java.nio.channels.FileLock;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.HashMap;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.LocalFileSystem;

/**
 * Excludes other processes from a checkpoint in a local folder. The operating system ends the lock
 * with the process, so that a restart after a kill does not wait.
 */
final class CheckpointLock {
  private static final String FILE = "headwater/exactly-once.lock";
  private static final Map<Path, FileLock> HELD = new HashMap<>();

  private CheckpointLock() {}

  static boolean isLocal(String checkpoint, Configuration configuration) throws IOException {
    return new org.apache.hadoop.fs.Path(checkpoint).getFileSystem(configuration)
        instanceof LocalFileSystem;
  }

  /**
   * Holds the checkpoint until this process ends.
   *
   * @throws ExactlyOnceException another process holds it
   */
  static synchronized void hold(String checkpoint) throws IOException {
    Path file = Path.of(new org.apache.hadoop.fs.Path(checkpoint).toUri().getPath(), FILE);
    FileLock held = HELD.get(file);
    if (held != null && held.isValid()) {
      return;
    }
    Files.createDirectories(file.getParent());
    FileChannel channel =
        FileChannel.open(file, StandardOpenOption.CREATE, StandardOpenOption.WRITE);
    FileLock lock = channel.tryLock();
    if (lock == null) {
      channel.close();
      throw new ExactlyOnceException(
          checkpoint + " is in use by another process: stop it, or choose another checkpoint");
    }
    HELD.put(file, lock);
  }
}
