package dev.headwater.rowlineage;

import dev.headwater.kafka.MissingTopic;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.config.TopicConfig;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Topics of the cluster that a job writes to; a job continues if it can't read or create them. */
final class KafkaTopics {
  private static final Logger LOG = LoggerFactory.getLogger("dev.headwater.rowlineage");
  private static final String KAFKA = "kafka.";
  private static final int TIMEOUT_SECONDS = 10;
  // What Kafka's producer uses unless configured.
  private static final int DEFAULT_BATCH_BYTES = 16 * 1024;

  private final Map<String, Object> properties = new HashMap<>();

  /** With the options of a job for Spark's Kafka sink. */
  KafkaTopics(Map<String, String> options) {
    options.forEach(
        (name, value) -> {
          if (name.startsWith(KAFKA)) {
            properties.put(name.substring(KAFKA.length()), value);
          }
        });
    properties.put("request.timeout.ms", String.valueOf(TIMEOUT_SECONDS * 500));
    properties.put("default.api.timeout.ms", String.valueOf(TIMEOUT_SECONDS * 1000));
  }

  /** The largest batch that a topic accepts, or a size that every topic should accept. */
  int maxMessageBytes(String topic) {
    if (topic == null) {
      return DEFAULT_BATCH_BYTES;
    }
    ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic.trim());
    return send(
            "read the limits of topic " + topic,
            admin -> {
              ConfigEntry entry =
                  admin
                      .describeConfigs(List.of(resource))
                      .all()
                      .get(TIMEOUT_SECONDS, TimeUnit.SECONDS)
                      .get(resource)
                      .get(TopicConfig.MAX_MESSAGE_BYTES_CONFIG);
              return Integer.valueOf(entry.value());
            })
        .orElse(DEFAULT_BATCH_BYTES);
  }

  /** Creates a topic with the broker's defaults unless it exists; returns whether it does. */
  boolean ensure(String topic) {
    return send(
            "create topic " + topic + ", so parents beyond the first 64 are only counted",
            admin -> {
              NewTopic missing = new NewTopic(topic, Optional.empty(), Optional.empty());
              MissingTopic.create(admin, missing, TIMEOUT_SECONDS * 1000);
              return true;
            })
        .orElse(false);
  }

  private interface Request<T> {
    T send(Admin admin) throws ExecutionException, InterruptedException, TimeoutException;
  }

  private <T> Optional<T> send(String what, Request<T> request) {
    try (Admin admin = Admin.create(properties)) {
      return Optional.of(request.send(admin));
    } catch (ExecutionException failed) {
      LOG.warn("row lineage: can't {}: {}", what, String.valueOf(failed.getCause()));
    } catch (TimeoutException | KafkaException failed) {
      LOG.warn("row lineage: can't {}: {}", what, String.valueOf(failed));
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
    }
    return Optional.empty();
  }
}
