package headwater.delivery;

import java.io.IOException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** A record is sent when the one before it has been acknowledged. */
final class IndividualDelivery implements Delivery {
  private final SinkOptions options;
  private final Producers.Key key;
  private final KafkaProducer<byte[], byte[]> producer;
  private final SetAside refused;

  IndividualDelivery(SinkOptions options, TaskOfBatch place) {
    this.options = options;
    // Tasks wait for acknowledgements: each on a connection of its own, not in one line.
    this.key = new Producers.Key(options.queryId(), place.task(), options.producer());
    this.producer = Producers.get(key);
    this.refused = new SetAside(options);
  }

  @Override
  public void send(ProducerRecord<byte[], byte[]> record) throws IOException {
    try {
      // Bounded: the producer gives up after its delivery.timeout.ms.
      producer.send(record).get();
      if (options.pauseMillis() > 0) {
        Thread.sleep(options.pauseMillis());
      }
    } catch (ExecutionException failed) {
      if (!(failed.getCause() instanceof Exception error) || !refused.takes(error)) {
        throw new DeliveryFailedException(record, failed.getCause());
      }
      refused.send(producer, record, error);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new DeliveryFailedException(record, stopped);
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
  public void finish() {}

  @Override
  public void giveUp() {
    Producers.discard(key);
  }
}
