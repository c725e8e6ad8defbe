package dev.headwater.delivery;

import com.fasterxml.jackson.databind.ObjectMapper;
import dev.headwater.compat.CheckpointStore;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataInputStream;
import org.apache.hadoop.fs.FileAlreadyExistsException;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;

/**
 * A log in the checkpoint of a query: where its output ended before a batch, and the runs that may
 * have written since. Each entry is a new file, written as Spark writes its own logs, so that the
 * same file systems are supported. Format: docs/concepts/delivery.md.
 *
 * <p>An entry that exists is never replaced: of two drivers with one checkpoint, the one that did
 * not write the newest entry can't add another.
 */
final class OutputLog {
  static final int FORMAT_VERSION = 1;
  private static final String FOLDER = "headwater/exactly-once";
  private static final int KEPT = 5;
  private static final ObjectMapper JSON = new ObjectMapper();

  /** End offsets by partition, taken before this batch or a later one started. */
  record Snapshot(long beforeBatch, Map<Integer, Long> ends) {}

  /**
   * @param run that wrote the entry, and is the only one that may write to the output
   * @param runs that may have written to the output since the first snapshot; empty before the
   *     first batch, and then without topic
   * @param job part of the identity of records with many parents
   * @param withContent whether records are recognized by key and value, too
   * @param writersEndMillis how long a writer of these runs may go on after a newer entry
   */
  record Entry(
      int version,
      String run,
      List<String> runs,
      String job,
      String topic,
      String topicId,
      boolean withContent,
      long writersEndMillis,
      List<Snapshot> snapshots) {
    /** The next entry of the same run. */
    Entry with(List<String> others, List<Snapshot> taken) {
      return new Entry(
          version, run, others, job, topic, topicId, withContent, writersEndMillis, taken);
    }

    /** Of a start that has not begun a batch yet: before it, no run wrote with this delivery. */
    static Entry announced(String run, String job, boolean withContent, long nextBatch) {
      List<Snapshot> none = List.of(new Snapshot(nextBatch, Map.of()));
      return new Entry(FORMAT_VERSION, run, List.of(), job, null, null, withContent, 0, none);
    }

    /** Whether no record of a batch is written; not a getter, which would be in the JSON. */
    boolean hasNothingOf(long batch) {
      return runs.isEmpty() && snapshots.get(0).beforeBatch() == batch;
    }

    /** The newest snapshot before a batch, or null. */
    Snapshot lastBefore(long batch) {
      Snapshot last = null;
      for (Snapshot each : snapshots) {
        last = each.beforeBatch() <= batch ? each : last;
      }
      return last;
    }
  }

  /** The newest batches that Spark has started and committed; -1 for none. */
  record Progress(long started, long committed) {
    boolean isInterrupted() {
      return started > committed;
    }
  }

  private final Path checkpoint;
  private final Path folder;
  private final CheckpointStore files;
  private long newest;

  OutputLog(String checkpoint, Configuration configuration) {
    this.checkpoint = new Path(checkpoint);
    folder = new Path(checkpoint, FOLDER);
    files = new CheckpointStore(folder, configuration);
  }

  Progress progress() throws IOException {
    return new Progress(
        newestIn(new Path(checkpoint, "offsets")), newestIn(new Path(checkpoint, "commits")));
  }

  /** The newest entry, or null. */
  Entry read() throws IOException {
    for (int attempts = 0; ; attempts++) {
      newest = Math.max(newestIn(folder), 0);
      if (newest == 0) {
        return null;
      }
      try (FSDataInputStream in = files.open(new Path(folder, Long.toString(newest)))) {
        return parse(in.readAllBytes());
      } catch (FileNotFoundException removed) {
        // A run that goes on removes old entries.
        if (attempts == 2) {
          throw removed;
        }
      }
    }
  }

  private Entry parse(byte[] content) throws IOException {
    String file = folder + "/" + newest;
    int version;
    try {
      version = JSON.readTree(content).path("version").asInt();
      if (version == FORMAT_VERSION) {
        return JSON.readValue(content, Entry.class);
      }
    } catch (IOException damaged) {
      throw new ExactlyOnceException(file + " is damaged" + ExactlyOnceException.WAY_OUT, damaged);
    }
    throw new ExactlyOnceException(
        file + " has version " + version + ", this version of Headwater reads " + FORMAT_VERSION);
  }

  /**
   * Adds an entry after the one that was read or added last.
   *
   * @throws ExactlyOnceException another driver has added one
   */
  void add(Entry entry) throws IOException {
    Path file = new Path(folder, Long.toString(newest + 1));
    files.mkdirs(folder);
    try {
      files.add(file, JSON.writeValueAsBytes(entry));
    } catch (FileAlreadyExistsException other) {
      throw new ExactlyOnceException(
          file + " exists: another driver runs this query with the same checkpoint", other);
    }
    newest++;
    if (newest > KEPT) {
      files.delete(new Path(folder, Long.toString(newest - KEPT)));
    }
  }

  /** For a query that is continued with another delivery: its batches are not known any more. */
  void remove() {
    if (exists()) {
      files.delete(folder);
    }
  }

  boolean exists() {
    return files.exists(folder);
  }

  private long newestIn(Path path) throws IOException {
    if (!files.exists(path)) {
      return -1;
    }
    long last = -1;
    for (FileStatus file : files.list(path, each -> isNumber(each.getName()))) {
      last = Math.max(last, Long.parseLong(file.getPath().getName()));
    }
    return last;
  }

  private static boolean isNumber(String name) {
    return !name.isEmpty() && name.length() < 19 && name.chars().allMatch(Character::isDigit);
  }
}
