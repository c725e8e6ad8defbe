package headwater.delivery;

import java.io.IOException;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

/** What Kafka says of the records of a task. Every report is looked at; the first failure stays. */
final class Reports {
  private final SetAside refused;
  private final AtomicReference<DeliveryFailedException> failure = new AtomicReference<>();

  Reports(SetAside refused) {
    this.refused = refused;
  }

  Callback of(ProducerRecord<byte[], byte[]> record) {
    return (metadata, error) -> {
      if (error == null) {
        return;
      }
      if (refused.takes(error)) {
        refused.add(record, error);
      } else {
        failure.compareAndSet(null, new DeliveryFailedException(record, error));
      }
    };
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
