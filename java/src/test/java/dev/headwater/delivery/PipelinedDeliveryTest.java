package dev.headwater.delivery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.common.errors.TimeoutException;
import org.junit.jupiter.api.Test;

class PipelinedDeliveryTest {
  private final MockProducer<byte[], byte[]> producer = TestSink.producer(false);

  private PipelinedDelivery delivery(String... options) {
    return new PipelinedDelivery(TestSink.options(options), key -> producer);
  }

  @Test
  void recordsAreSentWithoutWaitingForAcknowledgements() throws IOException {
    PipelinedDelivery delivery = delivery();
    for (int offset = 0; offset < 3; offset++) {
      delivery.send(TestSink.record("v" + offset, offset));
    }
    assertEquals(List.of("v0", "v1", "v2"), TestSink.sent(producer));
    assertEquals(Map.of("out/0", "0,2,3"), delivery.finish().metrics());
  }

  @Test
  void nothingIsSentAfterAFailedRecord() throws IOException {
    PipelinedDelivery delivery = delivery();
    delivery.send(TestSink.record("lost", 7));
    producer.errorNext(new TimeoutException("no leader"));
    assertTrue(producer.closed(), "the buffer must not be sent");
    IOException error =
        assertThrows(IOException.class, () -> delivery.send(TestSink.record("later", 8)));
    assertEquals(
        "the record for topic out made from in/0@7: TimeoutException: no leader",
        error.getMessage());
    assertEquals(List.of("lost"), TestSink.sent(producer));
  }

  @Test
  void aFailureOfTheLastRecordIsReportedAtTheEnd() throws IOException {
    PipelinedDelivery delivery = delivery();
    delivery.send(TestSink.record("lost", 7));
    producer.errorNext(new TimeoutException("no leader"));
    assertThrows(IOException.class, delivery::finish);
  }

  @Test
  void anAbortedTaskDiscardsItsBuffer() throws IOException {
    PipelinedDelivery delivery = delivery();
    delivery.send(TestSink.record("buffered", 7));
    delivery.abort();
    assertTrue(producer.closed());
  }

  @Test
  void theBufferOfAnAbortedTaskIsSentIfItsBatchIsRunAgainHere() throws IOException {
    PipelinedDelivery delivery = delivery("sendsAborted", "true");
    delivery.send(TestSink.record("buffered", 7));
    delivery.abort();
    assertFalse(producer.closed());
    assertEquals(List.of("buffered"), TestSink.sent(producer));
  }

  @Test
  void afterAFailedRecordTheBufferIsNotSentInAnyCase() throws IOException {
    PipelinedDelivery delivery = delivery("sendsAborted", "true");
    delivery.send(TestSink.record("lost", 7));
    producer.errorNext(new TimeoutException("no leader"));
    delivery.abort();
    assertTrue(producer.closed());
  }

  @Test
  void aRecordThatKafkaRejectsFailsTheTask() throws IOException {
    PipelinedDelivery delivery = delivery();
    delivery.send(TestSink.record("x".repeat(TestSink.TOO_LARGE), 7));
    assertThrows(IOException.class, delivery::finish);
  }

  @Test
  void aRejectedRecordIsReplacedByAReferenceInTheTopicForFailures() throws IOException {
    MockProducer<byte[], byte[]> acknowledging = TestSink.producer(true);
    PipelinedDelivery delivery =
        new PipelinedDelivery(TestSink.options("deadLetterFailures", "true"), key -> acknowledging);
    delivery.send(TestSink.record("x".repeat(TestSink.TOO_LARGE), 7));
    delivery.send(TestSink.record("small", 8));
    Map<String, String> written = delivery.finish().metrics();
    assertEquals(Map.of("out-dead-letter/0", "0,0,1", "out/0", "0,0,1"), written);
    String reference = TestSink.sent(acknowledging).get(0);
    assertTrue(reference.startsWith("{\"address\":\"in/0@7\",\"size\":1000,"), reference);
    assertEquals("small", TestSink.sent(acknowledging).get(1));
  }
}
