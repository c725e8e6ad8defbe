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
  // By run, for all tasks in this JVM: when a reading began that had found no later run.
  private static final Map<String, Long> CHECKED = new ConcurrentHashMap<>();

  void check() throws IOException {
    Long checked = CHECKED.get(run);
    if (checked == null || System.nanoTime() - checked > INTERVAL.toNanos()) {
      read();
    }
  }

  /** Reads the log, however long ago that was done. */
  void read() throws IOException {
    long now = System.nanoTime();
    OutputLog.Entry newest = new OutputLog(checkpoint, configuration.value()).read();
    if (newest == null || !newest.run().equals(run)) {
      throw new ExactlyOnceException(
          "run " + run + " was replaced by " + (newest == null ? "another" : newest.run()));
    }
    if (CHECKED.size() >= MAX_RUNS) {
      CHECKED.clear();
    }
    CHECKED.put(run, now);
  }
}
