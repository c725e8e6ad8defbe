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
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.TopicConfig;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Writes which job a run belongs to, once per run: records with a compact stamp have only the run.
 * The format is that of `model/run_record.py`.
 */
public final class RunRecords {
  private static final Logger LOG = LoggerFactory.getLogger(RunRecords.class);
  private static final String KAFKA = "kafka.";
  private static final int TIMEOUT_MILLIS = 10_000;

  private RunRecords() {}

  /**
   * Writes the record of a run, and creates the topic if it is missing. Errors are logged: lineage
   * never stops a job.
   *
   * @param options of the job's sink; those that start with `kafka.` configure the client
   * @return whether the record was written, within some 20 seconds
   */
  public static boolean write(
      Map<String, String> options,
      String topic,
      String runId,
      String jobName,
      String jobVersion,
      long startedMillis) {
    Map<String, Object> properties = clientProperties(options);
    try {
      create(topic, properties);
      send(topic, runId, value(jobName, jobVersion, startedMillis), properties);
      return true;
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      return false;
    } catch (ExecutionException | TimeoutException | KafkaException failed) {
      LOG.warn(
          "the record of run {} was not written to {}: queries will not show its job",
          runId,
          topic,
          failed);
      return false;
    }
  }

  /** The value of the record, in JSON. */
  static byte[] value(String jobName, String jobVersion, long startedMillis) {
    return new Bytes()
        .add("{\"job\":\"")
        .addEscaped(jobName.getBytes(StandardCharsets.UTF_8))
        .add("\",\"version\":\"")
        .addEscaped(jobVersion.getBytes(StandardCharsets.UTF_8))
        .add("\",\"started\":")
        .add(startedMillis)
        .add('}')
        .toArray();
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

  private static void create(String topic, Map<String, Object> client)
      throws ExecutionException, InterruptedException, TimeoutException {
    Map<String, Object> properties = new HashMap<>(client);
    properties.put(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, TIMEOUT_MILLIS);
    properties.put(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, TIMEOUT_MILLIS);
    try (Admin admin = Admin.create(properties)) {
      NewTopic missing =
          new NewTopic(topic, Optional.of(1), Optional.empty())
              .configs(Map.of(TopicConfig.CLEANUP_POLICY_CONFIG, "compact"));
      MissingTopic.create(admin, missing, TIMEOUT_MILLIS);
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
