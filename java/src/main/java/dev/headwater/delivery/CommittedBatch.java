package dev.headwater.delivery;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.ConsumerGroupListing;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.GroupIdNotFoundException;

/**
 * The last batch that a lane has committed, stored as the offset of a consumer group, because a
 * transaction can contain offsets besides records.
 */
record CommittedBatch(long batch, int tasks) {
  private static final long TIMEOUT_SECONDS = 30;
  private static final CommittedBatch NONE = new CommittedBatch(-1, 0);

  static OffsetAndMetadata offsetOf(BatchTask task) {
    return new OffsetAndMetadata(task.batch(), Integer.toString(task.tasks()));
  }

  /** Reads it for one lane. */
  static CommittedBatch of(SinkOptions options, String group) {
    return query(options, group, admin -> newest(admin, group));
  }

  /**
   * Reads it for all lanes with this prefix. After a shuffle the rows of a task depend on the
   * number of tasks, so that one lane is not enough to check that number.
   */
  static List<CommittedBatch> ofLanes(SinkOptions options, String prefix) {
    return query(
        options,
        prefix,
        admin -> {
          List<CommittedBatch> lanes = new ArrayList<>();
          for (ConsumerGroupListing group :
              admin.listConsumerGroups().all().get(TIMEOUT_SECONDS, TimeUnit.SECONDS)) {
            if (group.groupId().startsWith(prefix)) {
              lanes.add(newest(admin, group.groupId()));
            }
          }
          return lanes;
        });
  }

  private static CommittedBatch newest(Admin admin, String group) throws Exception {
    Map<TopicPartition, OffsetAndMetadata> offsets;
    try {
      offsets =
          admin
              .listConsumerGroupOffsets(
                  group, new ListConsumerGroupOffsetsOptions().requireStable(true))
              .partitionsToOffsetAndMetadata()
              .get(TIMEOUT_SECONDS, TimeUnit.SECONDS);
    } catch (ExecutionException failed) {
      if (failed.getCause() instanceof GroupIdNotFoundException) {
        return NONE;
      }
      throw failed;
    }
    CommittedBatch newest = NONE;
    // One entry, unless the job's output was renamed.
    for (OffsetAndMetadata offset : offsets.values()) {
      if (offset != null && offset.offset() > newest.batch()) {
        newest = new CommittedBatch(offset.offset(), Integer.parseInt(offset.metadata()));
      }
    }
    return newest;
  }

  private interface AdminQuery<T> {
    T run(Admin admin) throws Exception;
  }

  private static <T> T query(SinkOptions options, String group, AdminQuery<T> query) {
    try (Admin admin = Admin.create(clientProperties(options))) {
      return query.run(admin);
    } catch (ExecutionException failed) {
      throw new KafkaException(
          "the committed batch of " + group + " can't be read", failed.getCause());
    } catch (TimeoutException late) {
      throw new KafkaException(
          "timeout of " + TIMEOUT_SECONDS + " s reading the committed batch of " + group, late);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new KafkaException("stopped while reading the committed batch of " + group, stopped);
    } catch (RuntimeException unchecked) {
      throw unchecked;
    } catch (Exception other) {
      throw new KafkaException("the committed batch of " + group + " can't be read", other);
    }
  }

  /** Whether the task has been committed; throws if a later batch has been. */
  boolean covers(BatchTask task) {
    if (batch > task.batch()) {
      throw new KafkaException(
          "batch "
              + task.batch()
              + " is running, but batch "
              + batch
              + " is committed: the "
              + "checkpoint is older than the output; choose another --checkpoint and "
              + "--starting-offsets");
    }
    return batch == task.batch();
  }

  /** Throws if the batch was started with another number of tasks. */
  void checkTasks(BatchTask task) {
    if (batch == task.batch() && tasks != task.tasks()) {
      throw new KafkaException(
          "batch "
              + batch
              + " was started with "
              + tasks
              + " tasks and is rerun with "
              + task.tasks()
              + ": the records that are written can't be determined; restore the "
              + "number of partitions");
    }
  }

  private static Map<String, Object> clientProperties(SinkOptions options) {
    Map<String, Object> properties = new HashMap<>(options.producer());
    for (String name : ProducerConfig.configNames()) {
      // Keep the properties of both kinds of client, such as brokers and security.
      if (!AdminClientConfig.configNames().contains(name)) {
        properties.remove(name);
      }
    }
    return properties;
  }
}
