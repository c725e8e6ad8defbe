package dev.headwater.delivery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.headwater.LocalSpark;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Starts of a query with exactly-once delivery, with files that Spark would write. */
class ExactlyOnceTest {
  @TempDir Path checkpoint;
  private final SparkContext spark = LocalSpark.session().sparkContext();
  private long end = 7;
  private boolean exists = true;
  private Set<String> searched;

  /** An output with one partition. */
  private final class Output extends OutputTail {
    Output(SinkOptions options) {
      super(options);
    }

    @Override
    String topicId() {
      if (!exists) {
        throw new ExactlyOnceException("the output topic is missing");
      }
      return "id";
    }

    @Override
    Map<Integer, Long> ends() {
      return Map.of(0, end);
    }

    @Override
    WrittenRecords written(Map<Integer, Long> from, Set<String> runs, long batch, RecognizedBy by) {
      searched = runs;
      return new WrittenRecords.Builder(batch, by).build();
    }
  }

  private ExactlyOnce start(String run) throws IOException {
    ExactlyOnce start =
        new ExactlyOnce(
            spark,
            checkpoint.toString(),
            new Configuration(),
            run + checkpoint,
            "job",
            RecognizedBy.PARENTS);
    start.output = Output::new;
    return start;
  }

  private TaskGuard before(ExactlyOnce start, long batch) throws IOException {
    spark.setLocalProperty("streaming.sql.batchId", String.valueOf(batch));
    return start.before(TestSink.options("topic", "out", "queryId", checkpoint.toString()));
  }

  private void write(String file) throws IOException {
    Files.createDirectories(checkpoint.resolve(file).getParent());
    Files.writeString(checkpoint.resolve(file), "v1");
  }

  private OutputLog.Entry newest() throws IOException {
    return new OutputLog(checkpoint.toString(), new Configuration()).read();
  }

  @AfterEach
  void noBatch() {
    spark.setLocalProperty("streaming.sql.batchId", null);
  }

  @Test
  void aStartThatFailsBeforeItHasWrittenIsRepeatedWithoutReadingTheOutput() throws IOException {
    exists = false;
    ExactlyOnce failing = start("a");
    write("offsets/0");
    assertThrows(ExactlyOnceException.class, () -> before(failing, 0));
    exists = true;
    assertNull(before(start("b"), 0).written());
    assertEquals(List.of(new OutputLog.Snapshot(0, Map.of(0, 7L))), newest().snapshots());
    // From now on the batch may have written.
    assertNotNull(before(start("c"), 0).written());
    assertEquals(Set.of("b" + checkpoint, "c" + checkpoint), searched);
  }

  @Test
  void anInterruptedBatchOfAnotherDeliveryIsRefusedWithAWayOut() throws IOException {
    start("announced");
    write("offsets/0");
    write("commits/0");
    write("offsets/1");
    String message = assertThrows(ExactlyOnceException.class, () -> start("later")).getMessage();
    assertTrue(message.contains("start the query once with delivery=idempotent"), message);
  }

  @Test
  void aBatchThatAnActiveRunHasBegunAfterTheAnalysisIsInterrupted() throws IOException {
    ExactlyOnce active = start("active");
    write("offsets/0");
    before(active, 0);
    write("commits/0");
    ExactlyOnce next = start("next");
    write("offsets/1");
    before(active, 1);
    assertNotNull(before(next, 1).written());
    assertTrue(searched.contains("active" + checkpoint));
  }

  @Test
  void aBatchThatARunOfAnotherDeliveryHasBegunAfterTheAnalysisIsRefused() throws IOException {
    ExactlyOnce next = start("next");
    write("offsets/0");
    RunsHere.begin(checkpoint.toString(), new RunsHere.Begun(0, false));
    assertThrows(ExactlyOnceException.class, () -> before(next, 0));
    // The same checkpoint, deleted and created again.
    Files.delete(checkpoint.resolve("offsets/0"));
    ExactlyOnce other = start("other");
    write("offsets/0");
    assertNull(before(other, 0).written());
  }

  @Test
  void aBatchThatSparkHasNotRecordedIsRefused() throws IOException {
    ExactlyOnce realTime = start("real-time");
    assertThrows(ExactlyOnceException.class, () -> before(realTime, 0));
  }

  @Test
  void aBatchThatAnotherDriverHasCommittedSinceIsRefused() throws IOException {
    ExactlyOnce first = start("first");
    for (String file : List.of("offsets/0", "commits/0", "offsets/1")) {
      write(file);
    }
    assertThrows(ExactlyOnceException.class, () -> before(first, 1));
  }

  @Test
  void anIdleQueryRecordsTheEndOfItsOutputBeforeItsNextBatch() throws IOException {
    ExactlyOnce query = start("idle");
    write("offsets/0");
    before(query, 0);
    query.after(0, new WrittenOffsets());
    write("commits/0");
    write("offsets/1");
    end = 99;
    before(query, 1);
    assertEquals(7, newest().lastBefore(1).ends().get(0));
    query.clock = () -> System.nanoTime() + Duration.ofMinutes(2).toNanos();
    before(query, 1);
    assertEquals(99, newest().lastBefore(1).ends().get(0));
    assertEquals(List.of("idle" + checkpoint), newest().runs());
  }

  @Test
  void anotherDeliveryRemovesTheLogWithItsFirstBatch() throws IOException {
    start("former");
    OtherDelivery other = new OtherDelivery(spark, checkpoint.toString(), new Configuration());
    assertTrue(other.findsLog());
    other.before();
    assertNull(newest());
  }
}
