package dev.headwater.delivery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.common.errors.TimeoutException;
import org.junit.jupiter.api.Test;

class IndividualDeliveryTest {
  private final MockProducer<byte[], byte[]> producer = TestSink.producer(false);

  private IndividualDelivery delivery(String... options) {
    return new IndividualDelivery(
        TestSink.options(options), new BatchTask(0, 0, 1, 0), key -> producer);
  }

  @Test
  void aRecordIsSentAfterTheAcknowledgementOfThePreviousOne() throws IOException {
    IndividualDelivery delivery = delivery();
    for (int offset = 0; offset < 3; offset++) {
      delivery.send(TestSink.record("v" + offset, offset));
    }
    assertEquals(List.of("v0"), TestSink.sent(producer));
    producer.completeNext();
    assertEquals(List.of("v0", "v1"), TestSink.sent(producer));
    producer.completeNext();
    producer.completeNext();
    assertEquals(List.of("v0", "v1", "v2"), TestSink.sent(producer));
    assertEquals(Map.of("out/0", "0,2,3"), delivery.finish().metrics());
  }

  @Test
  void nothingIsSentAfterAFailedRecord() throws IOException {
    IndividualDelivery delivery = delivery();
    delivery.send(TestSink.record("lost", 7));
    delivery.send(TestSink.record("prepared", 8));
    producer.errorNext(new TimeoutException("no leader"));
    IOException error = assertThrows(IOException.class, delivery::finish);
    assertTrue(error.getMessage().contains("made from in/0@7: TimeoutException"));
    delivery.abort();
    assertEquals(List.of("lost"), TestSink.sent(producer));
  }

  @Test
  void theOrderIsKeptAroundARejectedRecord() throws IOException {
    MockProducer<byte[], byte[]> acknowledging = TestSink.producer(true);
    IndividualDelivery delivery =
        new IndividualDelivery(
            TestSink.options("deadLetterFailures", "true"),
            new BatchTask(0, 0, 1, 0),
            key -> acknowledging);
    delivery.send(TestSink.record("first", 6));
    delivery.send(TestSink.record("x".repeat(TestSink.TOO_LARGE), 7));
    delivery.send(TestSink.record("last", 8));
    Map<String, String> written = delivery.finish().metrics();
    assertEquals(Map.of("out-dead-letter/0", "0,0,1", "out/0", "0,1,2"), written);
    assertEquals("first", TestSink.sent(acknowledging).get(0));
    assertTrue(TestSink.sent(acknowledging).get(1).contains("in/0@7"));
    assertEquals("last", TestSink.sent(acknowledging).get(2));
  }
}
