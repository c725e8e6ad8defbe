package headwater.delivery;

import java.time.Duration;
import java.util.HashMap;
import java.util.Iterator;
import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;

/** Producers are kept across micro-batches: each start costs a connection and a handshake. */
public final class Producers {
  private static final long IDLE_NANOS = Duration.ofMinutes(10).toNanos();
  private static final Map<Key, Kept> KEPT = new HashMap<>();

  /** Tasks of one query share a producer, unless each has a line of its own. */
  record Key(String queryId, int line, Map<String, Object> properties) {}

  private Producers() {}

  private static final class Kept {
    final KafkaProducer<byte[], byte[]> producer;
    int users;
    long used;

    Kept(KafkaProducer<byte[], byte[]> producer) {
      this.producer = producer;
    }
  }

  /** The producer that is kept under this key, or a new one. */
  static synchronized KafkaProducer<byte[], byte[]> get(Key key) {
    closeIdle();
    Kept kept = KEPT.get(key);
    if (kept == null) {
      kept = new Kept(new KafkaProducer<>(key.properties()));
      KEPT.put(key, kept);
    }
    kept.users++;
    return kept.producer;
  }

  /** A task has no more use for its producer, which stays for the next one. */
  static synchronized void release(Key key) {
    Kept kept = KEPT.get(key);
    if (kept != null) {
      kept.users--;
      kept.used = System.nanoTime();
    }
  }

  /** Ends a producer at once: what it holds is not sent. One that has replaced it stays. */
  static void discard(Key key, KafkaProducer<byte[], byte[]> producer) {
    synchronized (Producers.class) {
      Kept kept = KEPT.get(key);
      if (kept != null && kept.producer == producer) {
        KEPT.remove(key);
      }
    }
    producer.close(Duration.ZERO);
  }

  /** At the end of a query. */
  public static synchronized void close(String queryId, long boundMillis) {
    Duration bound = Duration.ofMillis(boundMillis);
    for (Iterator<Map.Entry<Key, Kept>> all = KEPT.entrySet().iterator(); all.hasNext(); ) {
      Map.Entry<Key, Kept> one = all.next();
      if (one.getKey().queryId().equals(queryId)) {
        all.remove();
        one.getValue().producer.close(bound);
      }
    }
    TransactionalDelivery.close(queryId, bound);
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
