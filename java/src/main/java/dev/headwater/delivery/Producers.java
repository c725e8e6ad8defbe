package dev.headwater.delivery;

import java.time.Duration;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;

/** Keeps producers across micro-batches, because a new one needs connections and handshakes. */
public final class Producers {
  private static final long IDLE_NANOS = Duration.ofMinutes(10).toNanos();
  private static final Map<Key, Kept> KEPT = new HashMap<>();
  // Queries with a producer that could not complete its requests in time.
  private static final Set<String> INCOMPLETE = new HashSet<>();

  /** Tasks of one query share a producer, unless they have different lanes. */
  record Key(String queryId, int lane, Map<String, Object> properties) {}

  private Producers() {}

  private static final class Kept {
    final Producer<byte[], byte[]> producer;
    int users;
    long used;

    Kept(Producer<byte[], byte[]> producer) {
      this.producer = producer;
    }
  }

  /** The producer with this key, or a new one. */
  static synchronized Producer<byte[], byte[]> get(Key key) {
    closeIdle();
    Kept kept = KEPT.get(key);
    if (kept == null) {
      kept = new Kept(new KafkaProducer<>(key.properties()));
      KEPT.put(key, kept);
    }
    kept.users++;
    return kept.producer;
  }

  /** Returns a producer, which is kept for the next task. */
  static synchronized void release(Key key) {
    Kept kept = KEPT.get(key);
    if (kept != null) {
      kept.users--;
      kept.used = System.nanoTime();
    }
  }

  /** Closes a producer without sending its buffer. A producer that has replaced it is kept. */
  static void discard(Key key, Producer<byte[], byte[]> producer) {
    synchronized (Producers.class) {
      Kept kept = KEPT.get(key);
      if (kept != null && kept.producer == producer) {
        KEPT.remove(key);
      }
      INCOMPLETE.add(key.queryId());
    }
    producer.close(Duration.ZERO);
  }

  /** Closes the producers of a query. */
  public static synchronized void close(String queryId, long timeoutMillis) {
    Duration timeout = Duration.ofMillis(timeoutMillis);
    for (Iterator<Map.Entry<Key, Kept>> all = KEPT.entrySet().iterator(); all.hasNext(); ) {
      Map.Entry<Key, Kept> entry = all.next();
      if (entry.getKey().queryId().equals(queryId)) {
        all.remove();
        long deadline = System.nanoTime() + timeout.toNanos();
        entry.getValue().producer.close(timeout);
        if (System.nanoTime() >= deadline) {
          INCOMPLETE.add(queryId);
        }
      }
    }
    TransactionalDelivery.close(queryId, timeout);
  }

  /**
   * Waits until the tasks of a query have ended, and closes its producers. Returns whether all
   * requests of the query in this JVM are completed, so that its batch can be run again.
   */
  public static boolean settle(String queryId, long timeoutMillis) {
    boolean ended = OpenWriters.awaitNone(queryId, Duration.ofMillis(timeoutMillis));
    close(queryId, timeoutMillis);
    synchronized (Producers.class) {
      return ended && !INCOMPLETE.contains(queryId);
    }
  }

  private static void closeIdle() {
    long now = System.nanoTime();
    for (Iterator<Kept> all = KEPT.values().iterator(); all.hasNext(); ) {
      Kept kept = all.next();
      if (kept.users == 0 && now - kept.used > IDLE_NANOS) {
        all.remove();
        kept.producer.close(Duration.ZERO);
      }
    }
  }
}
