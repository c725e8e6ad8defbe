package dev.headwater.delivery;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.apache.kafka.clients.producer.MockProducer;
import org.junit.jupiter.api.Test;

/** When a batch can be run again in the same JVM. */
class ProducersTest {
  private final MockProducer<byte[], byte[]> producer = TestSink.producer(true);

  private TaskWriter writer(String queryId) {
    SinkOptions options = TestSink.options("queryId", queryId, "sendsAborted", "true");
    return new TaskWriter(new PipelinedDelivery(options, key -> producer), options, 0);
  }

  @Test
  void aQueryIsSettledWhenItsTasksHaveEnded() {
    TaskWriter first = writer("settled");
    TaskWriter second = writer("settled");
    first.close();
    assertFalse(Producers.settle("settled", 50), "a task writes");
    second.close();
    second.close();
    assertTrue(Producers.settle("settled", 50));
    assertTrue(Producers.settle("another", 50));
  }

  @Test
  void aQueryWhoseBufferWasDiscardedIsNotSettled() {
    Producers.discard(new Producers.Key("discarded", 0, TestSink.options().producer()), producer);
    assertFalse(Producers.settle("discarded", 50));
  }
}
