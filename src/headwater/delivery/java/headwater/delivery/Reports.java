package headwater.delivery;

import java.io.IOException;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Headers;

/** What Kafka says of the records of a task. Every report is looked at; the first failure stays. */
final class Reports {
  private final SetAside refused;
  private final Runnable onFailure;
  private final Written written = new Written();
  private final AtomicReference<DeliveryFailedException> failure = new AtomicReference<>();

  Reports(SetAside refused, Runnable onFailure) {
    this.refused = refused;
    this.onFailure = onFailure;
  }

  Callback of(ProducerRecord<byte[], byte[]> record) {
    if (refused.isOn()) {
      return (metadata, error) -> {
        if (error == null) {
          written.add(metadata);
        } else if (refused.takes(error)) {
          refused.add(record, error);
        } else {
          fail(record.topic(), record.headers(), error);
        }
      };
    }
    // Key and value are in the producer's buffer: only what an error tells is kept beside it.
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

  /** Fails with the first record that failed; those that may be set aside are. */
  void check(KafkaProducer<byte[], byte[]> producer) throws IOException {
    refused.sendAll(producer, written);
    DeliveryFailedException first = failure.get();
    if (first != null) {
      throw first;
    }
  }

  Written written() {
    return written;
  }
}
