package dev.headwater.delivery;

import java.io.IOException;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Headers;

/** Collects the results of the records of a task. The first failure is kept. */
final class DeliveryReports {
  private final DeadLetters deadLetters;
  private final Runnable onFailure;
  private final WrittenOffsets written = new WrittenOffsets();
  private final AtomicReference<DeliveryFailedException> failure = new AtomicReference<>();

  DeliveryReports(DeadLetters deadLetters, Runnable onFailure) {
    this.deadLetters = deadLetters;
    this.onFailure = onFailure;
  }

  Callback of(ProducerRecord<byte[], byte[]> record) {
    if (deadLetters.isEnabled()) {
      return (metadata, error) -> {
        if (error == null) {
          written.add(metadata);
        } else if (deadLetters.accepts(error)) {
          deadLetters.add(record, error);
        } else {
          fail(record.topic(), record.headers(), error);
        }
      };
    }
    // Keep only what an error message needs: key and value are in the producer's buffer.
    String topic = record.topic();
    Headers headers = record.headers();
    return (metadata, error) -> {
      if (error == null) {
        written.add(metadata);
      } else {
        fail(topic, headers, error);
      }
    };
  }

  private void fail(String topic, Headers headers, Exception error) {
    if (failure.compareAndSet(null, new DeliveryFailedException(topic, headers, error))) {
      onFailure.run();
    }
  }

  /** Throws for the first failed record; sends rejected ones to the dead letter topic. */
  void check(Producer<byte[], byte[]> producer) throws IOException {
    deadLetters.sendAll(producer, written);
    DeliveryFailedException first = failure.get();
    if (first != null) {
      throw first;
    }
  }

  boolean hasFailed() {
    return failure.get() != null;
  }

  WrittenOffsets written() {
    return written;
  }
}
