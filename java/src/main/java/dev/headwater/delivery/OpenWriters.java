package dev.headwater.delivery;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;

/**
 * The tasks that write in this JVM, by query. Spark does not wait for the other tasks of a batch
 * when one of them fails: they write until they notice that they were cancelled.
 */
final class OpenWriters {
  private static final Map<String, Integer> OPEN = new HashMap<>();

  private OpenWriters() {}

  static synchronized void add(String queryId) {
    OPEN.merge(queryId, 1, Integer::sum);
  }

  static synchronized void remove(String queryId) {
    OPEN.computeIfPresent(queryId, (id, count) -> count == 1 ? null : count - 1);
    OpenWriters.class.notifyAll();
  }

  /** Waits until no task of the query writes; returns whether that is so. */
  static synchronized boolean awaitNone(String queryId, Duration timeout) {
    long deadline = System.nanoTime() + timeout.toNanos();
    while (OPEN.containsKey(queryId)) {
      long millis = (deadline - System.nanoTime()) / 1_000_000;
      if (millis <= 0) {
        return false;
      }
      try {
        OpenWriters.class.wait(millis);
      } catch (InterruptedException stopped) {
        Thread.currentThread().interrupt();
        return false;
      }
    }
    return true;
  }
}
