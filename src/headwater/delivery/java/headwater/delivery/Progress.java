package headwater.delivery;

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
 * The last batch that a task has committed, kept by Kafka as the offset of a consumer group, because
 * that is what a transaction can hold besides records.
 */
record Progress(long batch, int tasks) {
  private static final long ASK_SECONDS = 30;
  private static final Progress NONE = new Progress(-1, 0);

  static OffsetAndMetadata note(TaskOfBatch place) {
    return new OffsetAndMetadata(place.batch(), Integer.toString(place.tasks()));
  }

  /** Of one lane. */
  static Progress of(SinkOptions options, String group) {
    return ask(options, group, admin -> newest(admin, group));
  }

  /**
   * Of all lanes of a query whose names begin so. Behind a shuffle a task's rows depend on how many
   * tasks there are, so that a lane of which nothing was written does not tell what the others have.
   */
  static List<Progress> ofLanes(SinkOptions options, String prefix) {
    return ask(
        options,
        prefix,
        admin -> {
          List<Progress> found = new ArrayList<>();
          for (ConsumerGroupListing group :
              admin.listConsumerGroups().all().get(ASK_SECONDS, TimeUnit.SECONDS)) {
            if (group.groupId().startsWith(prefix)) {
              found.add(newest(admin, group.groupId()));
            }
          }
          return found;
        });
  }

  private static Progress newest(Admin admin, String group) throws Exception {
    Map<TopicPartition, OffsetAndMetadata> found;
    try {
      found =
          admin
              .listConsumerGroupOffsets(group, new ListConsumerGroupOffsetsOptions().requireStable(true))
              .partitionsToOffsetAndMetadata()
              .get(ASK_SECONDS, TimeUnit.SECONDS);
    } catch (ExecutionException failed) {
      if (failed.getCause() instanceof GroupIdNotFoundException) {
        return NONE;
      }
      throw failed;
    }
    Progress newest = NONE;
    // One entry, unless the job's output was renamed.
    for (OffsetAndMetadata one : found.values()) {
      if (one != null && one.offset() > newest.batch()) {
        newest = new Progress(one.offset(), Integer.parseInt(one.metadata()));
      }
    }
    return newest;
  }

  private interface Question<T> {
    T ask(Admin admin) throws Exception;
  }

  private static <T> T ask(SinkOptions options, String what, Question<T> question) {
    try (Admin admin = Admin.create(clientProperties(options))) {
      return question.ask(admin);
    } catch (ExecutionException failed) {
      throw new KafkaException("the progress of " + what + " can't be read", failed.getCause());
    } catch (TimeoutException late) {
      throw new KafkaException(
          "no answer on the progress of " + what + " after " + ASK_SECONDS + " s", late);
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new KafkaException("stopped while reading the progress of " + what, stopped);
    } catch (RuntimeException told) {
      throw told;
    } catch (Exception other) {
      throw new KafkaException("the progress of " + what + " can't be read", other);
    }
  }

  /** Whether the task has been committed; fails if that can't be told. */
  boolean covers(TaskOfBatch place) {
    if (batch > place.batch()) {
      throw new KafkaException(
          "batch " + place.batch() + " is run, but Kafka holds batch " + batch + " already: the "
              + "checkpoint is older than the output; choose another --checkpoint and "
              + "--starting-offsets");
    }
    return batch == place.batch();
  }

  /** Fails if the batch was begun with another number of tasks. */
  void checkTasks(TaskOfBatch place) {
    if (batch == place.batch() && tasks != place.tasks()) {
      throw new KafkaException(
          "batch " + batch + " was begun with " + tasks + " tasks and is run again with "
              + place.tasks() + ": what is written already can't be told; set the number of "
              + "partitions back");
    }
  }

  private static Map<String, Object> clientProperties(SinkOptions options) {
    Map<String, Object> properties = new HashMap<>(options.producer());
    for (String name : ProducerConfig.configNames()) {
      // Those that both kinds of client know, such as the brokers and the security, stay.
      if (!AdminClientConfig.configNames().contains(name)) {
        properties.remove(name);
      }
    }
    return properties;
  }
}
