package dev.headwater.delivery;

import java.io.IOException;
import java.io.Serializable;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.util.SerializableConfiguration;

/**
 * Stops the tasks of a run after a later run of the query has started, wherever they run: an
 * executor may go on for minutes after its driver is lost.
 *
 * <p>A task reads the log in the checkpoint again before it sends a record more than {@link
 * #INTERVAL} after the last time. The later run waits for that interval, and for what is in flight.
 */
record RunFence(SerializableConfiguration configuration, String checkpoint, String run)
    implements Serializable {
  static final Duration INTERVAL = Duration.ofSeconds(5);
  private static final int MAX_RUNS = 1000;
  // By run, for all tasks in this JVM.
  private static final Map<String, Watched> WATCHED = new ConcurrentHashMap<>();

  private static final class Watched {
    private final OutputLog log;
    // When a reading began that had found no later run.
    private volatile Long checked;

    Watched(OutputLog log) {
      this.log = log;
    }
  }

  void check() throws IOException {
    Watched watched = watched();
    Long checked = watched.checked;
    if (checked == null || System.nanoTime() - checked > INTERVAL.toNanos()) {
      read(watched);
    }
  }

  /** Reads the log, however long ago that was done. */
  void read() throws IOException {
    read(watched());
  }

  /** The log, of which a run has one: to open it takes several requests on some file systems. */
  OutputLog log() {
    return watched().log;
  }

  private Watched watched() {
    Watched watched = WATCHED.get(run);
    if (watched != null) {
      return watched;
    }
    if (WATCHED.size() >= MAX_RUNS) {
      WATCHED.clear();
    }
    return WATCHED.computeIfAbsent(
        run, missing -> new Watched(new OutputLog(checkpoint, configuration.value())));
  }

  private void read(Watched watched) throws IOException {
    long now = System.nanoTime();
    OutputLog.Entry newest;
    synchronized (watched) {
      newest = watched.log.read();
    }
    if (newest == null || !newest.run().equals(run)) {
      throw new ExactlyOnceException(
          "run " + run + " was replaced by " + (newest == null ? "another" : newest.run()));
    }
    watched.checked = now;
  }
}
