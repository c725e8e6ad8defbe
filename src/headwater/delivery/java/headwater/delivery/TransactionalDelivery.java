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
 * <p>The transactional id names query and lane, so that a second attempt fences the first, and
 * whatever that had written without committing is void. A lane is a partition of the input, because
 * Spark may number the tasks of a batch otherwise when it runs again; behind a shuffle it is the
 * task, whose number then says which rows it has. Producers are kept for the next batch; one that
 * has been fenced meanwhile fails its task, and the next attempt begins with a new producer.
 */
final class TransactionalDelivery implements Delivery {
  private static final long IDLE_NANOS = Duration.ofMinutes(10).toNanos();
  private static final Map<String, Kept> KEPT = new ConcurrentHashMap<>();

  /** A producer between two batches; {@code batch} is the last one that it has committed. */
  private record Kept(KafkaProducer<byte[], byte[]> producer, long batch, long since) {}

  private final SinkOptions options;
  private final TaskOfBatch place;
  private final Reports reports;
  private String id;
  // Null until the first record, which tells the lane.
  private KafkaProducer<byte[], byte[]> producer;
  private boolean done;
  private boolean begun;

  TransactionalDelivery(SinkOptions options, TaskOfBatch place) {
    this.options = options;
    this.place = place;
    this.reports = new Reports(new SetAside(options), () -> {});
  }

  private void open(ProducerRecord<byte[], byte[]> first) {
    closeIdle();
    id = prefix(options.queryId()) + (options.lanesOfInput() ? inputOf(first) : place.task());
    Kept kept = KEPT.remove(id);
    if (kept != null && place.attempt() == 0) {
      producer = kept.producer();
      done = kept.batch() >= place.batch();
      return;
    }
    if (kept != null) {
      kept.producer().close(Duration.ZERO);
    }
    HashMap<String, Object> properties = new HashMap<>(options.producer());
    properties.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, id);
    producer = new KafkaProducer<>(properties);
    // In this order: once earlier attempts are fenced, what is committed stays as it is.
    producer.initTransactions();
    done = Progress.of(options, id).covers(place);
    if (!options.lanesOfInput()) {
      Progress.ofLanes(options, prefix(options.queryId())).forEach(lane -> lane.checkTasks(place));
    }
  }

  /** Topic and partition of the first parent. */
  private static String inputOf(ProducerRecord<byte[], byte[]> record) {
    String parents = DeliveryFailedException.parentsIn(record.headers());
    return parents.substring(0, parents.indexOf('@')).replace('/', '-');
  }

  @Override
  public void send(ProducerRecord<byte[], byte[]> record) throws IOException {
    try {
      if (!isDone(record)) {
        reports.check(producer);
        beginOnce();
        producer.send(record, reports.of(record));
      }
    } catch (RuntimeException notTaken) {
      throw new DeliveryFailedException(record, notTaken);
    }
  }

  @Override
  public Future<RecordMetadata> post(ProducerRecord<byte[], byte[]> record) throws IOException {
    try {
      if (isDone(record)) {
        // Whoever asks for the address will not send what it is for.
        TopicPartition nowhere = new TopicPartition(record.topic(), 0);
        return CompletableFuture.completedFuture(new RecordMetadata(nowhere, 0, 0, 0, 0, 0));
      }
      beginOnce();
      return producer.send(record);
    } catch (RuntimeException notTaken) {
      throw new DeliveryFailedException(record, notTaken);
    }
  }

  private boolean isDone(ProducerRecord<byte[], byte[]> record) {
    if (producer == null) {
      open(record);
    }
    return done;
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
  public Written finish() throws IOException {
    if (producer == null) {
      return reports.written();
    }
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
    Kept displaced = KEPT.put(id, new Kept(producer, place.batch(), System.nanoTime()));
    if (displaced != null) {
      displaced.producer().close(Duration.ZERO);
    }
    return reports.written();
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
    if (producer != null) {
      producer.close(Duration.ZERO);
    }
  }

  private static void closeIdle() {
    long now = System.nanoTime();
    for (Map.Entry<String, Kept> one : KEPT.entrySet()) {
      Kept kept = one.getValue();
      if (now - kept.since() > IDLE_NANOS && KEPT.remove(one.getKey(), kept)) {
        kept.producer().close(Duration.ZERO);
      }
    }
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
