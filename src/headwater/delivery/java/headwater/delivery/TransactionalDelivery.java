package headwater.delivery;

import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * One transaction for a task's records, with the batch's number in it: a task that runs again, here
 * or elsewhere, finds that number and writes nothing.
 *
 * <p>The transactional id names query and task, so that a second attempt fences the first, and
 * whatever that had written without committing is void. Producers are kept for the next batch; one
 * that has been fenced meanwhile fails its task, and the next attempt begins with a new producer.
 */
final class TransactionalDelivery implements Delivery {
  private static final Map<String, Kept> KEPT = new ConcurrentHashMap<>();

  /** A producer between two batches; {@code batch} is the last one that it has committed. */
  private record Kept(KafkaProducer<byte[], byte[]> producer, long batch) {}

  private final SinkOptions options;
  private final TaskOfBatch place;
  private final String id;
  private final KafkaProducer<byte[], byte[]> producer;
  private final boolean done;
  private final Reports reports;
  private boolean begun;

  private TransactionalDelivery(
      SinkOptions options,
      TaskOfBatch place,
      String id,
      KafkaProducer<byte[], byte[]> producer,
      boolean done) {
    this.options = options;
    this.place = place;
    this.id = id;
    this.producer = producer;
    this.done = done;
    this.reports = new Reports(new SetAside(options));
  }

  static TransactionalDelivery begin(SinkOptions options, TaskOfBatch place) {
    String id = prefix(options.queryId()) + place.task();
    Kept kept = KEPT.remove(id);
    if (kept != null && place.attempt() == 0) {
      boolean done = kept.batch() >= place.batch();
      return new TransactionalDelivery(options, place, id, kept.producer(), done);
    }
    if (kept != null) {
      kept.producer().close(Duration.ZERO);
    }
    HashMap<String, Object> properties = new HashMap<>(options.producer());
    properties.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, id);
    KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties);
    try {
      // In this order: once earlier attempts are fenced, what is committed stays as it is.
      producer.initTransactions();
      boolean done = Progress.of(options, id).covers(place);
      return new TransactionalDelivery(options, place, id, producer, done);
    } catch (RuntimeException failed) {
      producer.close(Duration.ZERO);
      throw failed;
    }
  }

  @Override
  public void send(ProducerRecord<byte[], byte[]> record) throws IOException {
    if (done) {
      return;
    }
    reports.check(producer);
    try {
      beginOnce();
      producer.send(record, reports.of(record));
    } catch (RuntimeException notTaken) {
      throw new DeliveryFailedException(record, notTaken);
    }
  }

  @Override
  public Future<RecordMetadata> post(ProducerRecord<byte[], byte[]> record) throws IOException {
    if (done) {
      // Whoever asks for the address will not send what it is for.
      TopicPartition nowhere = new TopicPartition(record.topic(), 0);
      return CompletableFuture.completedFuture(new RecordMetadata(nowhere, 0, 0, 0, 0, 0));
    }
    try {
      beginOnce();
      return producer.send(record);
    } catch (RuntimeException notTaken) {
      throw new DeliveryFailedException(record, notTaken);
    }
  }

  @Override
  public void flush() {
    producer.flush();
  }

  private void beginOnce() {
    if (!begun) {
      producer.beginTransaction();
      begun = true;
    }
  }

  @Override
  public void finish() throws IOException {
    try {
      if (begun) {
        producer.flush();
        reports.check(producer);
        OffsetAndMetadata progress = Progress.note(place);
        TopicPartition anywhere = new TopicPartition(options.outputTopic(), 0);
        producer.sendOffsetsToTransaction(
            Map.of(anywhere, progress), new ConsumerGroupMetadata(id));
        producer.commitTransaction();
      }
    } catch (RuntimeException failed) {
      throw new DeliveryFailedException(
          "task " + place.task() + " of batch " + place.batch() + " was not committed", failed);
    }
    long last = begun || done ? place.batch() : place.batch() - 1;
    KEPT.put(id, new Kept(producer, last));
  }

  @Override
  public void giveUp() {
    if (begun) {
      try {
        // An open transaction would hide what comes behind it from readers until it times out.
        producer.abortTransaction();
      } catch (RuntimeException unreachable) {
        // The next attempt's first call makes it void, too.
      }
    }
    producer.close(Duration.ZERO);
  }

  static void close(String queryId, Duration bound) {
    for (String id : KEPT.keySet()) {
      Kept kept = id.startsWith(prefix(queryId)) ? KEPT.remove(id) : null;
      if (kept != null) {
        kept.producer().close(bound);
      }
    }
  }

  private static String prefix(String queryId) {
    return "headwater-" + queryId + "-";
  }
}
