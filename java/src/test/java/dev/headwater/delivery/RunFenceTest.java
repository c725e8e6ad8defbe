package dev.headwater.delivery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.spark.util.SerializableConfiguration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Tasks of a run that another one has replaced. */
class RunFenceTest {
  @TempDir Path checkpoint;

  private RunFence fence(String run) {
    SerializableConfiguration configuration = new SerializableConfiguration(new Configuration());
    return new RunFence(configuration, checkpoint.toString(), run);
  }

  private void start(String run) throws IOException {
    OutputLog log = new OutputLog(checkpoint.toString(), new Configuration());
    log.read();
    log.add(
        new OutputLog.Entry(
            OutputLog.FORMAT_VERSION, run, List.of(run), "job", "out", "id", false, 0, List.of()));
  }

  @Test
  void aTaskStopsAfterALaterRunHasStarted() throws IOException {
    start("first of fence");
    fence("first of fence").check();
    start("second of fence");
    fence("second of fence").check();
    assertThrows(ExactlyOnceException.class, () -> fence("zombie of fence").check());
    assertThrows(ExactlyOnceException.class, () -> fence("first of fence").read());
  }

  @Test
  void recordsThatWaitForThoseWithTheirParentsAreNotSentAfterALaterRunHasStarted()
      throws IOException {
    start("later of parents");
    SinkOptions options = TestSink.options();
    MockProducer<byte[], byte[]> producer = TestSink.producer(true);
    Delivery delivery = new PipelinedDelivery(options, key -> producer);
    UnlistedParents parents =
        new UnlistedParents(
            delivery, new LineageHeaders(options, 0), options, fence("former of parents"));
    parents.send(TestSink.record("value", 1), "in/0@2", "id");
    assertThrows(ExactlyOnceException.class, parents::sendAll);
    assertEquals(
        List.of("out-parents"), producer.history().stream().map(ProducerRecord::topic).toList());
  }

  @Test
  void aRunOpensItsLogOnce() {
    assertSame(fence("one log").log(), fence("one log").log());
  }

  @Test
  void aTaskStopsAfterTheLogWasRemoved() {
    assertThrows(ExactlyOnceException.class, () -> fence("without a log").check());
  }
}
