package dev.headwater.delivery;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.BitSet;
import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.junit.jupiter.api.Test;

/** How the records of an interrupted batch are recognized. */
class WrittenRecordsTest {
  private static final String RUN = TestSink.RUN;

  private static ProducerRecord<byte[], byte[]> record(String lineage, String value) {
    return new ProducerRecord<>(
        "out",
        0,
        TestSink.bytes("key"),
        TestSink.bytes(value),
        List.of(LineageHeaders.header("lineage", lineage)));
  }

  private static ProducerRecord<byte[], byte[]> of(String parents, String value) {
    return record("2 " + RUN + " " + parents + " b7", value);
  }

  private static WrittenRecords written(
      boolean withContent, List<ProducerRecord<byte[], byte[]>> records) {
    return written(withContent ? RecognizedBy.CONTENT : RecognizedBy.PARENTS, records);
  }

  private static WrittenRecords written(
      RecognizedBy by, List<ProducerRecord<byte[], byte[]>> records) {
    WrittenRecords.Builder builder = new WrittenRecords.Builder(7, by);
    records.forEach(
        each ->
            builder.add(
                RecordIdentity.of(each.headers()).identity(),
                each.partition(),
                each.key(),
                each.value(),
                each.headers()));
    return builder.build();
  }

  private static ProducerRecord<byte[], byte[]> at(Integer partition, String... headers) {
    ProducerRecord<byte[], byte[]> equal = of("a/0@1", "x");
    ProducerRecord<byte[], byte[]> record =
        new ProducerRecord<>("out", partition, equal.key(), equal.value(), equal.headers());
    for (int i = 0; i < headers.length; i += 2) {
      record.headers().add(LineageHeaders.header(headers[i], headers[i + 1]));
    }
    return record;
  }

  private static RecordIdentity identity(String lineage) {
    return RecordIdentity.of(record(lineage, "v").headers());
  }

  @Test
  void theIdentityIsTheSameWhateverTheRunTheBatchAndTheStamp() {
    byte[] compact = identity("2 run a/0@1,b/1@2,+3 #4 =0f b17 >out-parents/0@5").identity();
    ProducerRecord<byte[], byte[]> full = record("1 other a/0@1,b/1@2,+3 #4 =0f", "v");
    full.headers().add(LineageHeaders.header("batch_version", "18"));
    assertArrayEquals(compact, RecordIdentity.of(full.headers()).identity());
    assertEquals(18, RecordIdentity.of(full.headers()).batch());
    assertEquals(17, identity("2 run a/0@1 b17 >out-parents/0@5").batch());
  }

  @Test
  void rangesAndUnknownParentsDoNotIdentifyARecord() {
    assertNull(identity("2 run ~a/0@1..7 b1").identity());
    assertNull(identity("2 run a/0@1,? b1").identity());
  }

  @Test
  void headersOfOtherProducersAreIgnored() {
    for (String other :
        List.of("", "2", "2 run", "3 run a/0@1 b1", "2 run a/0@1 bx", "{\"a\": 1}")) {
      assertNull(identity(other), other);
    }
    assertFalse(identity("2 run a/0@1 b7").isOf(7, Set.of(RUN)));
    assertFalse(identity("2 " + RUN + " a/0@1 b6").isOf(7, Set.of(RUN)));
    assertTrue(identity("2 " + RUN + " a/0@1 b7").isOf(7, Set.of(RUN)));
  }

  @Test
  void aRecordIsRecognizedByItsParentsWhateverItsValue() {
    WrittenRecords.LeftOut task = written(false, List.of(of("a/0@1", "x"))).new LeftOut();
    assertFalse(task.add(of("a/0@2", "x")));
    assertTrue(task.add(of("a/0@1", "y")));
  }

  @Test
  void withContentEqualParentsAreNotEnough() {
    WrittenRecords.LeftOut task = written(true, List.of(of("a/0@1", "x"))).new LeftOut();
    assertFalse(task.add(of("a/0@1", "y")));
    assertTrue(task.add(of("a/0@1", "x")));
  }

  @Test
  void recordsThatDifferInTheirHeadersOnlyAreDistinguished() {
    WrittenRecords written = written(true, List.of(at(0, "kind", "new", "job_version", "v1")));
    for (String[] other :
        List.of(
            new String[] {"kind", "old"},
            new String[] {"kind", null},
            new String[] {},
            new String[] {"kind", "new", "kind", "new"},
            new String[] {"kindn", "ew"})) {
      assertFalse(written.new LeftOut().add(at(0, other)), String.join(" ", other));
    }
    // Those of Headwater differ from run to run, and the partition is that of the producer.
    assertTrue(written.new LeftOut().add(at(null, "job_version", "v2", "kind", "new")));
  }

  @Test
  void recordsThatDifferInThePartitionOfTheJobOnlyAreDistinguished() {
    WrittenRecords written = written(RecognizedBy.CONTENT_AND_PARTITION, List.of(at(1)));
    assertFalse(written.new LeftOut().add(at(0)));
    assertTrue(written.new LeftOut().add(at(1)));
    assertThrows(ExactlyOnceException.class, () -> written.new LeftOut().add(at(null)));
  }

  @Test
  void ofEqualRecordsAsManyAreLeftOutAsAreWritten() {
    ProducerRecord<byte[], byte[]> equal = of("a/0@1", "x");
    WrittenRecords.LeftOut task = written(true, List.of(equal, equal)).new LeftOut();
    assertTrue(task.add(equal));
    assertTrue(task.add(equal));
    assertFalse(task.add(equal));
  }

  @Test
  void equalRecordsInSeveralTasksAreRefusedIfTooManyAreLeftOut() {
    ProducerRecord<byte[], byte[]> equal = of("a/0@1", "x");
    WrittenRecords two = written(true, List.of(equal, equal, of("a/0@2", "z")));
    WrittenRecords one = written(true, List.of(equal, of("a/0@2", "z")));
    assertEquals(2, two.check(List.of(after(two, equal), after(two, equal))));
    assertThrows(
        ExactlyOnceException.class, () -> one.check(List.of(after(one, equal), after(one, equal))));
  }

  private static BitSet after(WrittenRecords written, ProducerRecord<byte[], byte[]> record) {
    WrittenRecords.LeftOut task = written.new LeftOut();
    assertTrue(task.add(record));
    return task.entries();
  }

  @Test
  void aRowWithoutExactParentsStopsTheBatch() {
    WrittenRecords.LeftOut task = written(false, List.of(of("a/0@1", "x"))).new LeftOut();
    assertThrows(ExactlyOnceException.class, () -> task.add(of("?", "x")));
  }
}
