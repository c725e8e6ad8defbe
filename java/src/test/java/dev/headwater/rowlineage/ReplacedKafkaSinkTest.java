package dev.headwater.rowlineage;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.junit.jupiter.api.Test;

/** The producer of the replaced sink, as Kafka reads its options. */
class ReplacedKafkaSinkTest {
  private static ProducerConfig producer(String delivery, Map<String, String> ofJob) {
    Map<String, String> options = new HashMap<>(ofJob);
    ReplacedKafkaSink.addDefaults(
        options,
        new CaseInsensitiveStringMap(ofJob),
        delivery.equals("transactional"),
        delivery.equals("exactly-once"));
    Map<String, Object> properties = new HashMap<>();
    options.forEach((name, value) -> properties.put(name.substring("kafka.".length()), value));
    properties.put("bootstrap.servers", "localhost:9092");
    properties.put("key.serializer", ByteArraySerializer.class);
    properties.put("value.serializer", ByteArraySerializer.class);
    return new ProducerConfig(properties);
  }

  private static void assertReliable(ProducerConfig producer) {
    assertEquals("-1", producer.getString("acks"));
    assertTrue(producer.getBoolean("enable.idempotence"));
  }

  @Test
  void theDefaultsAreAcknowledgedByAllReplicasAndIdempotent() {
    ProducerConfig producer = producer("idempotent", Map.of());
    assertReliable(producer);
    assertEquals(5, producer.getInt("max.in.flight.requests.per.connection"));
    assertEquals("lz4", producer.getString("compression.type"));
    assertEquals(20L, producer.getLong("linger.ms"));
  }

  @Test
  void theOptionsOfTheJobTakePrecedence() {
    ProducerConfig producer =
        producer(
            "idempotent",
            Map.of("kafka.acks", "1", "kafka.compression.type", "gzip", "kafka.linger.ms", "3"));
    assertEquals("1", producer.getString("acks"));
    assertFalse(producer.getBoolean("enable.idempotence"));
    assertEquals("gzip", producer.getString("compression.type"));
    assertEquals(3L, producer.getLong("linger.ms"));
    assertEquals(
        3,
        producer("idempotent", Map.of("kafka.retries", "3", "kafka.acks", "0")).getInt("retries"));
  }

  @Test
  void aDeliveryThatNeedsReliableWritesKeepsThem() {
    Map<String, String> ofJob = Map.of("kafka.acks", "1", "kafka.linger.ms", "3");
    for (String delivery : new String[] {"transactional", "exactly-once"}) {
      ProducerConfig producer = producer(delivery, ofJob);
      assertReliable(producer);
      assertEquals(1, producer.getInt("max.in.flight.requests.per.connection"));
      assertEquals(3L, producer.getLong("linger.ms"));
    }
  }
}
