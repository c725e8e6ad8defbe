package headwater.delivery;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * A record is sent when the one before it has been acknowledged.
 *
 * <p>While it is on its way, the task prepares the next ones. The producer's own thread, which
 * hears the answer, sends the next at once: waking the task for each record would take longer than
 * sending it. After a failure it sends nothing more; what then happens is up to the task.
 */
final class IndividualDelivery implements Delivery {
  private static final int MAX_PREPARED = 64;
  // Larger ones may have to wait for room, which the producer's thread must not: it makes the room.
  private static final int MAX_BYTES = 64 * 1024;

  private record Failed(ProducerRecord<byte[], byte[]> record, Exception error) {}

  private final SinkOptions options;
  private final Producers.Key key;
  private final KafkaProducer<byte[], byte[]> producer;
  private final SetAside refused;
  private final Written written = new Written();
  // All below are touched with the lock of this object only. Without a failure, records are
  // prepared only while one is on its way.
  private final Queue<ProducerRecord<byte[], byte[]>> prepared = new ArrayDeque<>(MAX_PREPARED);
  private ProducerRecord<byte[], byte[]> onItsWay;
  private Failed failed;
  private String lastTopic;

  IndividualDelivery(SinkOptions options, TaskOfBatch place) {
    this.options = options;
    // Tasks wait for acknowledgements: each on a connection of its own, not in one line.
    this.key = new Producers.Key(options.queryId(), place.task(), options.producer());
    this.producer = Producers.get(key);
    this.refused = new SetAside(options);
  }

  @Override
  public synchronized void send(ProducerRecord<byte[], byte[]> record) throws IOException {
    if (canFollow(record)) {
      settleFailure();
      while (prepared.size() == MAX_PREPARED) {
        awaitAnswer();
      }
    } else {
      awaitAll();
    }
    if (onItsWay == null) {
      dispatch(record);
    } else {
      prepared.add(record);
    }
    lastTopic = record.topic();
    if (options.pauseMillis() > 0) {
      awaitAll();
      pause(record);
    }
  }

  @Override
  public synchronized Future<RecordMetadata> post(ProducerRecord<byte[], byte[]> record)
      throws IOException {
    // Behind all that was sent: these, too, go one after the other.
    awaitAll();
    try {
      return producer.send(record);
    } catch (RuntimeException notTaken) {
      throw new DeliveryFailedException(record, notTaken);
    }
  }

  @Override
  public void flush() {
    producer.flush();
  }

  @Override
  public synchronized Written finish() throws IOException {
    awaitAll();
    Producers.release(key);
    return written;
  }

  @Override
  public void giveUp() {
    synchronized (this) {
      prepared.clear();
    }
    Producers.discard(key, producer);
  }

  /** Of a topic that the producer knows, and small: then its thread never waits to send it. */
  private boolean canFollow(ProducerRecord<byte[], byte[]> record) {
    int size = record.value() == null ? 0 : record.value().length;
    return record.topic().equals(lastTopic) && size <= MAX_BYTES;
  }

  private void dispatch(ProducerRecord<byte[], byte[]> record) {
    onItsWay = record;
    try {
      producer.send(record, (metadata, error) -> answered(record, metadata, error));
    } catch (RuntimeException notTaken) {
      answered(record, null, notTaken);
    }
  }

  /** On the producer's thread, or within `send` if the record was not taken. */
  private synchronized void answered(
      ProducerRecord<byte[], byte[]> record, RecordMetadata metadata, Exception error) {
    onItsWay = null;
    if (error != null) {
      failed = new Failed(record, error);
    } else {
      written.add(metadata);
      if (!prepared.isEmpty()) {
        dispatch(prepared.remove());
      }
    }
    // The task is woken when there is enough to do for it.
    if (onItsWay == null || prepared.size() <= MAX_PREPARED / 2) {
      notifyAll();
    }
  }

  /** Returns when nothing is on its way. */
  private void awaitAll() throws IOException {
    settleFailure();
    while (onItsWay != null) {
      awaitAnswer();
    }
  }

  private void awaitAnswer() throws IOException {
    ProducerRecord<byte[], byte[]> record = onItsWay;
    try {
      // Bounded: the producer gives up after its delivery.timeout.ms, and says so.
      wait();
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new DeliveryFailedException(record, stopped);
    }
    settleFailure();
  }

  /** Sets a refused record aside and goes on with the next; any other failure ends the task. */
  private void settleFailure() throws IOException {
    while (failed != null) {
      Failed one = failed;
      if (!refused.takes(one.error())) {
        throw new DeliveryFailedException(one.record(), one.error());
      }
      failed = null;
      refused.send(producer, one.record(), one.error(), written);
      if (!prepared.isEmpty()) {
        dispatch(prepared.remove());
      }
    }
  }

  private void pause(ProducerRecord<byte[], byte[]> record) throws IOException {
    try {
      // Behind each record, also the last: the next may come in a batch that follows at once.
      Thread.sleep(options.pauseMillis());
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new DeliveryFailedException(record, stopped);
    }
  }
}
