package headwater.delivery;

import java.io.IOException;
import java.time.Duration;
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
    // What comes behind a failed record must not be sent.
    this.reports = new Reports(new SetAside(options), () -> producer.close(Duration.ZERO));
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
  public Written finish() throws IOException {
    producer.flush();
    reports.check(producer);
    Producers.release(key);
    return reports.written();
  }

  @Override
  public void giveUp() {
    Producers.discard(key, producer);
  }
}
