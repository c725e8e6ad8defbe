package headwater.delivery;

import java.io.IOException;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** What Kafka says of the records of a task. Every report is looked at; the first failure stays. */
final class Reports {
  private final SetAside refused;
  private final Runnable onFailure;
  private final AtomicReference<DeliveryFailedException> failure = new AtomicReference<>();

  Reports(SetAside refused, Runnable onFailure) {
    this.refused = refused;
    this.onFailure = onFailure;
  }

  Callback of(ProducerRecord<byte[], byte[]> record) {
    if (refused.isOn()) {
      return (metadata, error) -> {
        if (error != null && refused.takes(error)) {
          refused.add(record, error);
        } else if (error != null) {
          fail(record.topic(), DeliveryFailedException.lineageOf(record), error);
        }
      };
    }
    // Until it is answered the record itself is not kept: its copy in the producer's buffer is.
    String topic = record.topic();
    byte[] lineage = DeliveryFailedException.lineageOf(record);
    return (metadata, error) -> {
      if (error != null) {
        fail(topic, lineage, error);
      }
    };
  }

  private void fail(String topic, byte[] lineage, Exception error) {
    if (failure.compareAndSet(null, new DeliveryFailedException(topic, lineage, error))) {
      onFailure.run();
    }
  }

  /** Fails with the first record that failed; those that may be set aside are. */
  void check(KafkaProducer<byte[], byte[]> producer) throws IOException {
    refused.sendAll(producer);
    DeliveryFailedException first = failure.get();
    if (first != null) {
      throw first;
    }
  }
}
