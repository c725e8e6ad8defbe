package dev.headwater.delivery;

import java.io.IOException;
import java.util.ArrayDeque;
import java.util.Queue;
import java.util.concurrent.Future;
import java.util.function.Function;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Sends a record after the acknowledgement of the previous one.
 *
 * <p>While a record is in flight, the task prepares the next ones. The producer's thread sends the
 * next one in its callback: waking the task for each record would take longer than sending it.
 * After a failure nothing more is sent until the task has handled it.
 */
final class IndividualDelivery implements Delivery {
  private static final int MAX_PREPARED = 64;
  // Sending larger ones may block until there is buffer space, which the producer's thread frees.
  private static final int MAX_BYTES = 64 * 1024;

  private record Failed(ProducerRecord<byte[], byte[]> record, Exception error) {}

  private final SinkOptions options;
  private final Producers.Key key;
  private final Producer<byte[], byte[]> producer;
  private final DeadLetters deadLetters;
  private final WrittenOffsets written = new WrittenOffsets();
  // Guarded by the lock of this object. Without a failure, records are prepared only while one is
  // in flight.
  private final Queue<ProducerRecord<byte[], byte[]>> prepared = new ArrayDeque<>(MAX_PREPARED);
  private ProducerRecord<byte[], byte[]> inFlight;
  private Failed failed;
  private String lastTopic;

  IndividualDelivery(SinkOptions options, BatchTask batchTask) {
    this(options, batchTask, Producers::get);
  }

  IndividualDelivery(
      SinkOptions options,
      BatchTask batchTask,
      Function<Producers.Key, Producer<byte[], byte[]>> producers) {
    this.options = options;
    // Tasks wait for acknowledgements, so each needs its own connection.
    this.key = new Producers.Key(options.queryId(), batchTask.task(), options.producer());
    this.producer = producers.apply(key);
    this.deadLetters = new DeadLetters(options);
  }

  @Override
  public synchronized void send(ProducerRecord<byte[], byte[]> record) throws IOException {
    if (canFollow(record)) {
      handleFailure();
      while (prepared.size() == MAX_PREPARED) {
        awaitCompletion();
      }
    } else {
      awaitAll();
    }
    if (inFlight == null) {
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
    // After all that was sent: these are in order as well.
    awaitAll();
    try {
      return producer.send(record);
    } catch (RuntimeException rejected) {
      throw new DeliveryFailedException(record, rejected);
    }
  }

  @Override
  public void flush() {
    producer.flush();
  }

  @Override
  public synchronized WrittenOffsets finish() throws IOException {
    awaitAll();
    Producers.release(key);
    return written;
  }

  @Override
  public void abort() {
    synchronized (this) {
      prepared.clear();
    }
    Producers.discard(key, producer);
  }

  /** Whether the producer's thread can send it without blocking: known topic, small value. */
  private boolean canFollow(ProducerRecord<byte[], byte[]> record) {
    int size = record.value() == null ? 0 : record.value().length;
    return record.topic().equals(lastTopic) && size <= MAX_BYTES;
  }

  private void dispatch(ProducerRecord<byte[], byte[]> record) {
    inFlight = record;
    try {
      producer.send(record, (metadata, error) -> completed(record, metadata, error));
    } catch (RuntimeException rejected) {
      completed(record, null, rejected);
    }
  }

  /** Called on the producer's thread, or within `send` if the record was rejected. */
  private synchronized void completed(
      ProducerRecord<byte[], byte[]> record, RecordMetadata metadata, Exception error) {
    inFlight = null;
    if (error != null) {
      failed = new Failed(record, error);
    } else {
      written.add(metadata);
      if (!prepared.isEmpty()) {
        dispatch(prepared.remove());
      }
    }
    // Wakes the task only when there is enough space for it.
    if (inFlight == null || prepared.size() <= MAX_PREPARED / 2) {
      notifyAll();
    }
  }

  /** Waits until nothing is in flight. */
  private void awaitAll() throws IOException {
    handleFailure();
    while (inFlight != null) {
      awaitCompletion();
    }
  }

  private void awaitCompletion() throws IOException {
    ProducerRecord<byte[], byte[]> record = inFlight;
    try {
      // Bounded by the producer's delivery.timeout.ms, after which the callback gets an error.
      wait();
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new DeliveryFailedException(record, stopped);
    }
    handleFailure();
  }

  /** Sends a rejected record to the dead letter topic; other failures end the task. */
  private void handleFailure() throws IOException {
    while (failed != null) {
      Failed failure = failed;
      if (!deadLetters.accepts(failure.error())) {
        throw new DeliveryFailedException(failure.record(), failure.error());
      }
      failed = null;
      deadLetters.send(producer, failure.record(), failure.error(), written);
      if (!prepared.isEmpty()) {
        dispatch(prepared.remove());
      }
    }
  }

  private void pause(ProducerRecord<byte[], byte[]> record) throws IOException {
    try {
      // After each record, also the last: the next batch may follow immediately.
      Thread.sleep(options.pauseMillis());
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new DeliveryFailedException(record, stopped);
    }
  }
}
