package dev.headwater.delivery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.TopicPartition;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInfo;

class TransactionalDeliveryTest {
  private final TestCluster cluster = new TestCluster();
  private final String query;

  TransactionalDeliveryTest(TestInfo test) {
    // Producers are kept by query.
    query = test.getDisplayName();
  }

  @AfterEach
  void closeProducers() {
    Producers.close(query, 0);
  }

  private TransactionalDelivery delivery(BatchTask task, String... more) {
    List<String> options = new ArrayList<>(List.of("mode", "transactional", "queryId", query));
    options.addAll(List.of(more));
    return new TransactionalDelivery(
        TestSink.options(options.toArray(String[]::new)), task, cluster);
  }

  @Test
  void theRecordsOfATaskAndItsBatchAreOneTransaction() throws IOException {
    TransactionalDelivery delivery = delivery(new BatchTask(3, 1, 2, 0));
    delivery.send(TestSink.record("a", 0));
    delivery.send(TestSink.record("b", 1));
    assertTrue(cluster.producer.transactionInFlight());
    assertEquals(List.of(), TestSink.sent(cluster.producer), "not before the commit");
    assertEquals(Map.of("out/0", "0,1,2"), delivery.finish().metrics());
    assertEquals(List.of("a", "b"), TestSink.sent(cluster.producer));
    Map<TopicPartition, OffsetAndMetadata> offsets =
        cluster.producer.consumerGroupOffsetsHistory().get(0).get(cluster.id());
    assertEquals(Map.of(new TopicPartition("out", 0), new OffsetAndMetadata(3, "2")), offsets);
  }

  @Test
  void aLaneIsTheNumberOfTheTaskOrItsInputPartition() throws IOException {
    delivery(new BatchTask(0, 5, 8, 0)).send(TestSink.record("a", 0));
    assertEquals("headwater-" + query + "-5", cluster.id());
    delivery(new BatchTask(0, 5, 8, 0), "oneInputPerTask", "true").send(TestSink.record("a", 0));
    assertEquals("headwater-" + query + "-in-0", cluster.id());
  }

  @Test
  void aTaskThatIsCommittedWritesNothing() throws IOException {
    cluster.committed = new CommittedBatch(3, 2);
    TransactionalDelivery delivery = delivery(new BatchTask(3, 1, 2, 1));
    delivery.send(TestSink.record("a", 0));
    assertEquals(Map.of(), delivery.finish().metrics());
    assertEquals(0, cluster.producer.commitCount());
    assertFalse(cluster.producer.transactionInFlight());
  }

  @Test
  void aProducerIsKeptForTheNextBatch() throws IOException {
    for (long batch = 0; batch < 3; batch++) {
      TransactionalDelivery delivery = delivery(new BatchTask(batch, 0, 1, 0));
      delivery.send(TestSink.record("of batch " + batch, batch));
      delivery.finish();
    }
    assertEquals(1, cluster.producers);
    assertEquals(3, cluster.producer.commitCount());
  }

  @Test
  void aRetryReplacesTheProducerAndFencesTheFormerOne() throws IOException {
    TransactionalDelivery first = delivery(new BatchTask(0, 0, 1, 0));
    first.send(TestSink.record("a", 0));
    first.finish();
    MockProducer<byte[], byte[]> former = cluster.producer;
    delivery(new BatchTask(1, 0, 1, 1)).send(TestSink.record("b", 1));
    assertEquals(2, cluster.producers);
    assertTrue(former.closed());
  }

  @Test
  void anAbortedTaskAbortsItsTransaction() throws IOException {
    TransactionalDelivery delivery = delivery(new BatchTask(0, 0, 1, 0));
    delivery.send(TestSink.record("a", 0));
    delivery.abort();
    assertTrue(cluster.producer.transactionAborted());
    assertTrue(cluster.producer.closed());
    assertEquals(List.of(), TestSink.sent(cluster.producer));
  }

  @Test
  void aFencedProducerFailsTheTask() throws IOException {
    TransactionalDelivery delivery = delivery(new BatchTask(4, 0, 1, 0));
    delivery.send(TestSink.record("a", 0));
    cluster.producer.fenceProducer();
    IOException error = assertThrows(IOException.class, delivery::finish);
    assertTrue(
        error.getMessage().startsWith("task 0 of batch 4 of topic out was not committed"),
        error.getMessage());
  }

  @Test
  void aCheckpointThatIsOlderThanTheOutputIsRefused() {
    cluster.committed = new CommittedBatch(9, 1);
    IOException error =
        assertThrows(
            IOException.class,
            () -> delivery(new BatchTask(4, 0, 1, 0)).send(TestSink.record("a", 0)));
    assertTrue(
        error.getMessage().contains("batch 4 is running, but batch 9 is committed"),
        error.getMessage());
  }

  @Test
  void aBatchThatIsRerunWithAnotherNumberOfTasksIsRefused() {
    cluster.ofLanes = List.of(new CommittedBatch(4, 8));
    IOException error =
        assertThrows(
            IOException.class,
            () -> delivery(new BatchTask(4, 0, 2, 0)).send(TestSink.record("a", 0)));
    assertTrue(
        error.getMessage().contains("was started with 8 tasks and is rerun with 2"),
        error.getMessage());
  }

  private static final class TestCluster implements TransactionalDelivery.Cluster {
    MockProducer<byte[], byte[]> producer;
    int producers;
    CommittedBatch committed = new CommittedBatch(-1, 0);
    List<CommittedBatch> ofLanes = List.of();
    private Map<String, Object> properties;

    @Override
    public Producer<byte[], byte[]> producer(Map<String, Object> given) {
      producers++;
      properties = given;
      producer = TestSink.producer(true);
      return producer;
    }

    @Override
    public CommittedBatch committed(String group) {
      return committed;
    }

    @Override
    public List<CommittedBatch> committedOfLanes(String prefix) {
      return ofLanes;
    }

    String id() {
      return (String) properties.get(ProducerConfig.TRANSACTIONAL_ID_CONFIG);
    }
  }
}
