package dev.headwater.delivery;

import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * One transaction for the records of a task, which contains the batch id: a task that is rerun, on
 * any executor, finds that id and writes nothing.
 *
 * <p>The transactional id consists of query and lane, so that a second attempt fences the first and
 * its uncommitted records are aborted. A lane is an input partition, because Spark may number the
 * tasks of a batch differently in a rerun; after a shuffle it is the task number, which then
 * determines its rows. Producers are kept for the next batch; a producer that was fenced in the
 * meantime fails its task, and the next attempt starts with a new one.
 */
final class TransactionalDelivery implements Delivery {
  private static final long IDLE_NANOS = Duration.ofMinutes(10).toNanos();
  private static final Map<String, Kept> KEPT = new ConcurrentHashMap<>();

  /** A producer between two batches; {@code batch} is its last committed one. */
  private record Kept(Producer<byte[], byte[]> producer, long batch, long since) {}

  /** What a lane needs of the cluster. */
  interface Cluster {
    Producer<byte[], byte[]> producer(Map<String, Object> properties);

    CommittedBatch committed(String group);

    List<CommittedBatch> committedOfLanes(String prefix);
  }

  private final SinkOptions options;
  private final BatchTask task;
  private final Cluster cluster;
  private final DeliveryReports reports;
  private String id;
  // Null until the first record, which determines the lane.
  private Producer<byte[], byte[]> producer;
  private boolean done;
  private boolean begun;

  TransactionalDelivery(SinkOptions options, BatchTask task) {
    this(options, task, new KafkaCluster(options));
  }

  TransactionalDelivery(SinkOptions options, BatchTask task, Cluster cluster) {
    this.options = options;
    this.task = task;
    this.cluster = cluster;
    this.reports = new DeliveryReports(new DeadLetters(options), () -> {});
  }

  private void open(ProducerRecord<byte[], byte[]> first) {
    closeIdle();
    id = prefix(options.queryId()) + (options.oneInputPerTask() ? inputOf(first) : task.task());
    Kept kept = KEPT.remove(id);
    if (kept != null && task.attempt() == 0) {
      producer = kept.producer();
      done = kept.batch() >= task.batch();
      return;
    }
    if (kept != null) {
      kept.producer().close(Duration.ZERO);
    }
    HashMap<String, Object> properties = new HashMap<>(options.producer());
    properties.put(ProducerConfig.TRANSACTIONAL_ID_CONFIG, id);
    producer = cluster.producer(properties);
    // In this order: after earlier attempts are fenced, the committed batch can't change.
    producer.initTransactions();
    done = cluster.committed(id).covers(task);
    if (!options.oneInputPerTask()) {
      cluster.committedOfLanes(prefix(options.queryId())).forEach(lane -> lane.checkTasks(task));
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
    } catch (RuntimeException rejected) {
      throw new DeliveryFailedException(record, rejected);
    }
  }

  @Override
  public Future<RecordMetadata> post(ProducerRecord<byte[], byte[]> record) throws IOException {
    try {
      if (isDone(record)) {
        // The address is not used, because the record that needs it is not sent either.
        TopicPartition unused = new TopicPartition(record.topic(), 0);
        return CompletableFuture.completedFuture(new RecordMetadata(unused, 0, 0, 0, 0, 0));
      }
      beginOnce();
      return producer.send(record);
    } catch (RuntimeException rejected) {
      throw new DeliveryFailedException(record, rejected);
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
  public WrittenOffsets finish() throws IOException {
    if (producer == null) {
      return reports.written();
    }
    try {
      if (begun) {
        producer.flush();
        reports.check(producer);
        OffsetAndMetadata committed = CommittedBatch.offsetOf(task);
        TopicPartition partition = new TopicPartition(options.outputTopics().get(0), 0);
        producer.sendOffsetsToTransaction(
            Map.of(partition, committed), new ConsumerGroupMetadata(id));
        producer.commitTransaction();
      }
    } catch (RuntimeException failed) {
      String what = "task " + task.task() + " of batch " + task.batch();
      throw new DeliveryFailedException(
          what + " of topic " + options.outputTopics().get(0) + " was not committed", failed);
    }
    Kept displaced = KEPT.put(id, new Kept(producer, task.batch(), System.nanoTime()));
    if (displaced != null) {
      displaced.producer().close(Duration.ZERO);
    }
    return reports.written();
  }

  @Override
  public void abort() {
    if (begun) {
      try {
        // An open transaction would hide later records from consumers until it times out.
        producer.abortTransaction();
      } catch (RuntimeException unreachable) {
        // The next attempt aborts it with `initTransactions`.
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

  static void close(String queryId, Duration timeout) {
    for (String id : KEPT.keySet()) {
      Kept kept = id.startsWith(prefix(queryId)) ? KEPT.remove(id) : null;
      if (kept != null) {
        kept.producer().close(timeout);
      }
    }
  }

  /** Of the transactional ids and groups of a query. */
  static String prefix(String queryId) {
    return "headwater-" + queryId + "-";
  }

  private record KafkaCluster(SinkOptions options) implements Cluster {
    @Override
    public Producer<byte[], byte[]> producer(Map<String, Object> properties) {
      return new KafkaProducer<>(properties);
    }

    @Override
    public CommittedBatch committed(String group) {
      return CommittedBatch.of(options, group);
    }

    @Override
    public List<CommittedBatch> committedOfLanes(String prefix) {
      return CommittedBatch.ofLanes(options, prefix);
    }
  }
}
