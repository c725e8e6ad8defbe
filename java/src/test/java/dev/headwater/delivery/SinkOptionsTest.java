package dev.headwater.delivery;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class SinkOptionsTest {
  @Test
  void aTopicBelongsToTheOutputWithTheLongestCommonName() {
    SinkOptions options = TestSink.options("outputTopics", "visits\nvisits-clean");
    assertEquals("visits", options.outputOf("visits"));
    assertEquals("visits", options.outputOf("visits-dead-letter"));
    assertEquals("visits-clean", options.outputOf("visits-clean-dead-letter"));
    assertEquals("visits", options.outputOf("unknown"));
  }

  @Test
  void theProducerGetsTheOptionsOfKafkaWithTheirCase() {
    SinkOptions options = TestSink.options("kafka.bootstrap.servers", "b:9092", "kafka.aB", "1");
    assertEquals("b:9092", options.producer().get("bootstrap.servers"));
    assertEquals("1", options.producer().get("aB"));
  }
}
