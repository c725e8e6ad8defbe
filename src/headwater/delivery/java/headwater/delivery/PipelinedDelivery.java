package headwater.delivery;

import java.io.IOException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Many records on their way at once. How many requests, and whether a retry may double one, is up
 * to the producer's settings.
 */
final class PipelinedDelivery implements Delivery {
  private final Producers.Key key;
  private final KafkaProducer<byte[], byte[]> producer;
  private final Reports reports;

  PipelinedDelivery(SinkOptions options) {
    this.key = new Producers.Key(options.queryId(), 0, options.producer());
    this.producer = Producers.get(key);
    this.reports = new Reports(new SetAside(options));
  }

  @Override
  public void send(ProducerRecord<byte[], byte[]> record) throws IOException {
    reports.check(producer);
    try {
      producer.send(record, reports.of(record));
    } catch (RuntimeException notTaken) {
      throw new DeliveryFailedException(record, notTaken);
    }
  }

  @Override
  public Future<RecordMetadata> post(ProducerRecord<byte[], byte[]> record) throws IOException {
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
  public void finish() throws IOException {
    producer.flush();
    reports.check(producer);
  }

  @Override
  public void giveUp() {
    Producers.discard(key);
  }
}
