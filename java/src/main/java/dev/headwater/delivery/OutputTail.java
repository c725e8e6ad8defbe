package dev.headwater.delivery;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.stream.Collectors;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.errors.InterruptException;
import org.apache.kafka.common.errors.UnknownTopicOrPartitionException;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/** The output topic of a query, read with the options of the job's own sink. */
class OutputTail {
  private static final Duration POLL = Duration.ofSeconds(1);
  private static final Duration TIMEOUT = Duration.ofSeconds(60);

  private final Map<String, Object> producer;
  private final String topic;

  OutputTail(SinkOptions options) {
    this.producer = options.producer();
    this.topic = options.topic().trim();
  }

  String topic() {
    return topic;
  }

  /** The next offset of each partition. */
  Map<Integer, Long> ends() {
    try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
      return byPartition(consumer.endOffsets(partitions(consumer), TIMEOUT));
    } catch (KafkaException failed) {
      throw unreadable(failed);
    }
  }

  String topicId() {
    return ask(
        admin ->
            admin
                .describeTopics(List.of(topic))
                .allTopicNames()
                .get(TIMEOUT.toSeconds(), TimeUnit.SECONDS)
                .get(topic)
                .topicId()
                .toString());
  }

  /**
   * The records that these runs have written in a batch, between two positions.
   *
   * @throws ExactlyOnceException records in between were deleted or compacted, so that it can't be
   *     determined which are written
   */
  WrittenRecords written(
      Map<Integer, Long> from, Set<String> runs, long batch, RecognizedBy recognizedBy) {
    WrittenRecords.Builder found = new WrittenRecords.Builder(batch, recognizedBy);
    try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
      List<TopicPartition> partitions = partitions(consumer);
      Map<Integer, Long> first = byPartition(consumer.beginningOffsets(partitions, TIMEOUT));
      Map<Integer, Long> ends = byPartition(consumer.endOffsets(partitions, TIMEOUT));
      consumer.assign(partitions);
      Map<Integer, Long> begin = new TreeMap<>();
      for (TopicPartition each : partitions) {
        int number = each.partition();
        begin.put(number, start(number, from, first.get(number), ends.get(number), batch));
        consumer.seek(each, begin.get(number));
      }
      Map<Integer, Long> counts =
          read(
              consumer,
              ends,
              record -> {
                RecordIdentity one = RecordIdentity.of(record.headers());
                if (one != null && one.isOf(batch, runs)) {
                  found.add(
                      one.identity(),
                      record.partition(),
                      record.key(),
                      record.value(),
                      record.headers());
                }
              });
      refuseGaps(begin, ends, counts, batch);
    } catch (KafkaException failed) {
      throw unreadable(failed);
    }
    return found.build();
  }

  private long start(int partition, Map<Integer, Long> from, long first, long end, long batch) {
    Long recorded = from.get(partition);
    if (recorded == null) {
      // Of a partition that was added since.
      return first;
    }
    String at = topic + "/" + partition + "@" + recorded;
    if (recorded < first) {
      throw unknown(batch, at + " to @" + (first - 1) + " were deleted from the output");
    }
    if (recorded > end) {
      throw unknown(batch, "the output ended before " + at + ", and now before @" + end);
    }
    return recorded;
  }

  private interface Reader {
    void accept(ConsumerRecord<byte[], byte[]> record);
  }

  /** Reads to the end and returns how many records each partition has. */
  private Map<Integer, Long> read(
      KafkaConsumer<byte[], byte[]> consumer, Map<Integer, Long> ends, Reader reader) {
    Map<Integer, Long> counts = new HashMap<>();
    long progressed = System.nanoTime();
    while (true) {
      long position = 0;
      for (TopicPartition each : consumer.assignment()) {
        long next = consumer.position(each, TIMEOUT);
        position += next;
        if (next >= ends.get(each.partition())) {
          consumer.pause(List.of(each));
        }
      }
      if (consumer.paused().size() == consumer.assignment().size()) {
        return counts;
      }
      for (ConsumerRecord<byte[], byte[]> record : consumer.poll(POLL)) {
        if (record.offset() < ends.get(record.partition())) {
          counts.merge(record.partition(), 1L, Long::sum);
          reader.accept(record);
        }
      }
      long after = 0;
      for (TopicPartition each : consumer.assignment()) {
        after += consumer.position(each, TIMEOUT);
      }
      if (after > position) {
        progressed = System.nanoTime();
      } else if (System.nanoTime() - progressed > TIMEOUT.toNanos()) {
        throw new ExactlyOnceException(
            topic + " can't be read: no record within " + TIMEOUT.toSeconds() + " s");
      }
    }
  }

  /** Transactions of other producers leave gaps, too; only compaction removes records. */
  private void refuseGaps(
      Map<Integer, Long> begin, Map<Integer, Long> ends, Map<Integer, Long> counts, long batch) {
    begin.forEach(
        (partition, first) -> {
          long missing = ends.get(partition) - first - counts.getOrDefault(partition, 0L);
          if (missing > 0 && isCompacted()) {
            String range = topic + "/" + partition + "@" + first + " to @" + ends.get(partition);
            throw unknown(batch, "compaction removed " + missing + " of the records from " + range);
          }
        });
  }

  private boolean isCompacted() {
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
    ConfigEntry policy =
        ask(
            admin ->
                admin
                    .describeConfigs(List.of(resource))
                    .all()
                    .get(TIMEOUT.toSeconds(), TimeUnit.SECONDS)
                    .get(resource)
                    .get(TopicConfig.CLEANUP_POLICY_CONFIG));
    return policy.value().contains(TopicConfig.CLEANUP_POLICY_COMPACT);
  }

  private static ExactlyOnceException unknown(long batch, String why) {
    return new ExactlyOnceException(
        "batch "
            + batch
            + " was interrupted, and "
            + why
            + ": which of its records are written is not known"
            + ExactlyOnceException.WAY_OUT);
  }

  private RuntimeException unreadable(Throwable cause) {
    if (cause instanceof InterruptedException || cause instanceof InterruptException) {
      return ExactlyOnceException.stopped("while topic " + topic + " was read", cause);
    }
    if (cause instanceof UnknownTopicOrPartitionException) {
      return new ExactlyOnceException(
          "the output topic " + topic + " is missing: create it", cause);
    }
    return new ExactlyOnceException(
        "topic "
            + topic
            + " can't be read, which a start after an interrupted batch needs (permissions Read "
            + "and Describe): "
            + cause,
        cause);
  }

  private List<TopicPartition> partitions(KafkaConsumer<byte[], byte[]> consumer) {
    List<PartitionInfo> found = consumer.partitionsFor(topic, TIMEOUT);
    if (found == null || found.isEmpty()) {
      throw new UnknownTopicOrPartitionException(topic);
    }
    return found.stream().map(each -> new TopicPartition(topic, each.partition())).toList();
  }

  private static Map<Integer, Long> byPartition(Map<TopicPartition, Long> offsets) {
    return offsets.entrySet().stream()
        .collect(
            Collectors.toMap(
                each -> each.getKey().partition(),
                Map.Entry::getValue,
                (one, other) -> one,
                TreeMap::new));
  }

  private KafkaConsumer<byte[], byte[]> consumer() {
    Map<String, Object> properties = commonWith(ConsumerConfig.configNames());
    properties.put(ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, "false");
    properties.put(ConsumerConfig.ISOLATION_LEVEL_CONFIG, "read_uncommitted");
    properties.put(ConsumerConfig.ALLOW_AUTO_CREATE_TOPICS_CONFIG, "false");
    // A position that was deleted in the meantime is an error.
    properties.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "none");
    return new KafkaConsumer<>(
        properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
  }

  private interface Request<T> {
    T send(Admin admin) throws ExecutionException, InterruptedException, TimeoutException;
  }

  private <T> T ask(Request<T> request) {
    Admin admin = Admin.create(commonWith(AdminClientConfig.configNames()));
    try {
      return request.send(admin);
    } catch (ExecutionException failed) {
      throw unreadable(failed.getCause());
    } catch (TimeoutException | KafkaException failed) {
      throw unreadable(failed);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw unreadable(stopped);
    } finally {
      // Without waiting for a request that was interrupted.
      admin.close(Duration.ZERO);
    }
  }

  /** The properties that another kind of client has, too, such as brokers and security. */
  private Map<String, Object> commonWith(Set<String> names) {
    Map<String, Object> properties = new HashMap<>(producer);
    for (String name : ProducerConfig.configNames()) {
      if (!names.contains(name)) {
        properties.remove(name);
      }
    }
    properties.remove(ProducerConfig.INTERCEPTOR_CLASSES_CONFIG);
    return properties;
  }
}
