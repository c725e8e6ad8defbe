package dev.headwater.delivery;

import dev.headwater.kafka.MissingTopic;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes the record of a run: which job it belongs to, for records with a compact stamp, which have
 * only the run, and how exact its row lineage is.
 */
public final class RunRecords {
  private static final Logger LOG = LoggerFactory.getLogger(RunRecords.class);
  private static final String KAFKA = "kafka.";
  private static final int TIMEOUT_MILLIS = 10_000;

  private RunRecords() {}

  /**
   * Writes the record of a run. Errors are logged: lineage never stops a job.
   *
   * @param options of the job's sink; those that start with `kafka.` configure the client
   * @param create creates the topic if it is missing; else nothing is written then
   * @return whether the record was written, within some 20 seconds
   */
  public static boolean write(
      Map<String, String> options, String topic, RunRecord run, boolean create) {
    Map<String, Object> properties = clientProperties(options);
    try {
      if (!ensure(topic, create, properties)) {
        return false;
      }
      send(topic, run.runId(), run.value(), properties);
      return true;
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      return false;
    } catch (ExecutionException | TimeoutException | RuntimeException | LinkageError failed) {
      LOG.warn(
          "the record of run {} was not written to {}: queries will not show its job",
          run.runId(),
          topic,
          failed);
      return false;
    }
  }

  private static Map<String, Object> clientProperties(Map<String, String> options) {
    Map<String, Object> properties = new HashMap<>();
    options.forEach(
        (name, value) -> {
          if (name.startsWith(KAFKA)) {
            properties.put(name.substring(KAFKA.length()), value);
          }
        });
    return properties;
  }

  /** Whether the topic exists, after it was created if it may be. */
  private static boolean ensure(String topic, boolean create, Map<String, Object> client)
      throws ExecutionException, InterruptedException, TimeoutException {
    Map<String, Object> properties = new HashMap<>(client);
    properties.put(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, TIMEOUT_MILLIS);
    properties.put(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, TIMEOUT_MILLIS);
    try (Admin admin = Admin.create(properties)) {
      if (!create) {
        return MissingTopic.exists(admin, topic, TIMEOUT_MILLIS);
      }
      NewTopic missing =
          new NewTopic(topic, Optional.of(1), Optional.empty())
              .configs(Map.of(TopicConfig.CLEANUP_POLICY_CONFIG, "compact"));
      MissingTopic.create(admin, missing, TIMEOUT_MILLIS);
      return true;
    }
  }

  private static void send(String topic, String runId, byte[] value, Map<String, Object> client)
      throws ExecutionException, InterruptedException, TimeoutException {
    Map<String, Object> properties = new HashMap<>(client);
    // Those of the job's producer: this record is written without a transaction.
    properties.remove(ProducerConfig.TRANSACTIONAL_ID_CONFIG);
    properties.put(ProducerConfig.MAX_BLOCK_MS_CONFIG, TIMEOUT_MILLIS);
    properties.put(ProducerConfig.LINGER_MS_CONFIG, 0);
    properties.put(ProducerConfig.REQUEST_TIMEOUT_MS_CONFIG, TIMEOUT_MILLIS);
    properties.put(ProducerConfig.DELIVERY_TIMEOUT_MS_CONFIG, TIMEOUT_MILLIS);
    byte[] key = runId.getBytes(StandardCharsets.US_ASCII);
    Producer<byte[], byte[]> producer =
        new KafkaProducer<>(properties, new ByteArraySerializer(), new ByteArraySerializer());
    try {
      producer
          .send(new ProducerRecord<>(topic, key, value))
          .get(TIMEOUT_MILLIS, TimeUnit.MILLISECONDS);
    } finally {
      producer.close(Duration.ZERO);
    }
  }
}
