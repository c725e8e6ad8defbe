package dev.headwater.delivery;

import java.io.IOException;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.errors.RecordTooLargeException;

/**
 * Records that Kafka rejects permanently, such as for their size. With a topic for failures a
 * reference is sent there, and the job continues.
 */
final class DeadLetters {
  private record Rejected(ProducerRecord<byte[], byte[]> record, Exception error) {}

  private final boolean enabled;
  private final DeadLetterReference references;
  private final Queue<Rejected> waiting = new ConcurrentLinkedQueue<>();

  DeadLetters(SinkOptions options) {
    this.enabled = options.deadLetterFailures();
    this.references = new DeadLetterReference(options);
  }

  boolean isEnabled() {
    return enabled;
  }

  boolean accepts(Throwable error) {
    return isEnabled()
        && (error instanceof RecordTooLargeException || error instanceof InvalidRecordException);
  }

  /** Called on the producer's thread, which must not block: the task's thread sends it. */
  void add(ProducerRecord<byte[], byte[]> record, Exception error) {
    waiting.add(new Rejected(record, error));
  }

  void sendAll(Producer<byte[], byte[]> producer, WrittenOffsets written) throws IOException {
    for (Rejected one = waiting.poll(); one != null; one = waiting.poll()) {
      send(producer, one.record(), one.error(), written);
    }
  }

  void send(
      Producer<byte[], byte[]> producer,
      ProducerRecord<byte[], byte[]> record,
      Exception error,
      WrittenOffsets written)
      throws IOException {
    ProducerRecord<byte[], byte[]> reference =
        references.of(record, error.getClass().getName(), error.getMessage());
    try {
      written.add(producer.send(reference).get());
    } catch (ExecutionException failed) {
      throw new DeliveryFailedException(reference, failed.getCause());
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new DeliveryFailedException(reference, stopped);
    }
  }
}
