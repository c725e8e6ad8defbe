package dev.headwater.delivery;

import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.Future;
import java.util.function.Function;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Many records in flight. The number of requests, and whether a retry can cause duplicates, depends
 * on the producer's configuration.
 */
final class PipelinedDelivery implements Delivery {
  private final Producers.Key key;
  private final Producer<byte[], byte[]> producer;
  private final DeliveryReports reports;
  private final boolean sendsAborted;

  PipelinedDelivery(SinkOptions options) {
    this(options, Producers::get);
  }

  PipelinedDelivery(
      SinkOptions options, Function<Producers.Key, Producer<byte[], byte[]>> producers) {
    this.key = new Producers.Key(options.queryId(), 0, options.producer());
    this.producer = producers.apply(key);
    this.sendsAborted = options.sendsAborted();
    // Records after a failed one must not be sent.
    this.reports =
        new DeliveryReports(new DeadLetters(options), () -> producer.close(Duration.ZERO));
  }

  @Override
  public void send(ProducerRecord<byte[], byte[]> record) throws IOException {
    reports.check(producer);
    try {
      producer.send(record, reports.of(record));
    } catch (RuntimeException rejected) {
      throw new DeliveryFailedException(record, rejected);
    }
  }

  @Override
  public Future<RecordMetadata> post(ProducerRecord<byte[], byte[]> record) throws IOException {
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
  public WrittenOffsets finish() throws IOException {
    producer.flush();
    reports.check(producer);
    Producers.release(key);
    return reports.written();
  }

  @Override
  public void abort() {
    if (sendsAborted && !reports.hasFailed()) {
      // Closed with the query, after its records were acknowledged.
      Producers.release(key);
    } else {
      Producers.discard(key, producer);
    }
  }
}
