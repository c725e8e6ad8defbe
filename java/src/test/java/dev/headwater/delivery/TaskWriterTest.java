package dev.headwater.delivery;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.unsafe.types.UTF8String;
import org.junit.jupiter.api.Test;

/** Records that would exceed Kafka's limits. */
class TaskWriterTest {
  private static final int MEBIBYTE = 1024 * 1024;
  private static final String DROPPED = "lineage_dropped_headers";

  // Accepts everything: what exceeds the limit must not get here.
  private final MockProducer<byte[], byte[]> producer =
      new MockProducer<>(true, null, new ByteArraySerializer(), new ByteArraySerializer());

  private Map<String, String> write(InternalRow row, String... options) throws IOException {
    SinkOptions sink = TestSink.options(options);
    TaskWriter writer = new TaskWriter(new PipelinedDelivery(sink, key -> producer), sink, 0);
    writer.write(row);
    return ((WrittenOffsets) writer.commit()).metrics();
  }

  private ProducerRecord<byte[], byte[]> sent() {
    assertEquals(1, producer.history().size());
    ProducerRecord<byte[], byte[]> record = producer.history().get(0);
    assertTrue(size(record) < MEBIBYTE, "Kafka's producer would reject it");
    return record;
  }

  private static long size(ProducerRecord<byte[], byte[]> record) {
    long size = length(record.key()) + length(record.value());
    for (Header header : record.headers()) {
      size += header.key().length() + length(header.value());
    }
    return size;
  }

  private static int length(byte[] bytes) {
    return bytes == null ? 0 : bytes.length;
  }

  private static InternalRow row(
      int keyBytes, byte[] value, boolean failed, InternalRow... parent) {
    Object[] lineage = new Object[Parents.FIELDS];
    lineage[0] = UTF8String.fromString("in");
    lineage[1] = 0;
    lineage[2] = 7L;
    ArrayData headers = new GenericArrayData(parent);
    lineage[6] = headers;
    InternalRow error =
        new GenericInternalRow(
            new Object[] {
              UTF8String.fromString("BadValue"), UTF8String.fromString("m".repeat(2 * MEBIBYTE))
            });
    return new GenericInternalRow(
        new Object[] {
          UTF8String.fromString(failed ? "out-dead-letter" : "out"),
          new byte[keyBytes],
          value,
          new GenericInternalRow(lineage),
          0L,
          failed ? error : null,
          null,
          null
        });
  }

  private static InternalRow[] many(int count) {
    InternalRow[] headers = new InternalRow[count];
    Arrays.setAll(headers, number -> TestSink.header("h" + number, "v"));
    return headers;
  }

  private static String text(ProducerRecord<byte[], byte[]> record, String header) {
    return new String(record.headers().lastHeader(header).value(), StandardCharsets.UTF_8);
  }

  @Test
  void aCompactStampIsTheLineageHeaderAlone() throws IOException {
    InternalRow parent = TestSink.header("job_name", "of the parent");
    InternalRow foreign = TestSink.header("traceparent", "00");
    write(row(1, new byte[1], false, parent, foreign), "stamp", "compact", "moreHeaders", "*");
    List<String> names = Arrays.stream(sent().headers().toArray()).map(Header::key).toList();
    assertEquals(List.of("lineage", "traceparent"), names);
    byte[] lineage = sent().headers().lastHeader("lineage").value();
    assertTrue(new String(lineage, StandardCharsets.US_ASCII).endsWith(" b0"));
    assertTrue(lineage.length <= 75);
  }

  @Test
  void theRecordOfARunIsJson() {
    String job = "{\"job\":\"a \\\"job\\\"\",\"version\":\"v1\",\"started\":7";
    assertEquals(job + "}", run(null, List.of(), null));
    assertEquals(
        job + ",\"coverage\":\"ranges\",\"steps\":[\"MapInPandas\",\"a \\\"step\\\"\"]}",
        run("ranges", List.of("MapInPandas", "a \"step\""), null));
    assertEquals(
        job + ",\"coverage\":\"off\",\"reason\":\"first line\"}",
        run("off", List.of(), "first line\nsecond"));
  }

  @Test
  void theRecordOfARunIsNeverLargerThanReadersTake() {
    List<String> steps = Collections.nCopies(1000, "a step ".repeat(1000));
    assertTrue(run("ranges", steps, "x".repeat(100_000)).length() < 8 * 1024);
    // Each character takes six when it is escaped.
    String controls = "\u0001".repeat(1000);
    String without = run("unknown", Collections.nCopies(20, controls), controls);
    assertTrue(without.endsWith("\"coverage\":\"unknown\"}"));
  }

  private static String run(String coverage, List<String> steps, String reason) {
    RunRecord run = new RunRecord("run", "a \"job\"", "v1", 7, coverage, steps, reason);
    return new String(run.value(), StandardCharsets.UTF_8);
  }

  @Test
  void rangesAmongTheParentsThatAreNotListedAreWrittenInVersion2() throws IOException {
    InternalRow row = row(1, new byte[1], false);
    GenericInternalRow lineage = (GenericInternalRow) row.getStruct(3, Parents.FIELDS);
    for (int i = 0; i < 3; i++) {
      lineage.setNullAt(i);
    }
    lineage.update(3, UTF8String.fromString("ads/0@1"));
    lineage.update(4, 2L);
    lineage.update(5, UTF8String.fromString("hash"));
    lineage.update(7, UTF8String.fromString("ads/0@2,~visits/0@3..17"));
    write(row, "runId", "-");
    List<String> headers =
        producer.history().stream()
            .map(record -> record.headers().lastHeader("lineage").value())
            .map(value -> new String(value, StandardCharsets.US_ASCII))
            .toList();
    assertEquals("2 - ~visits/0@3..17,ads/0@2", headers.get(0));
    // Without the `?` the header would be the identity of a record with exact parents.
    assertTrue(headers.get(1).startsWith("2 - ads/0@1,?,+2 ="), headers.get(1));
  }

  @Test
  void aLargeHeaderIsDroppedAndCountedAndTheOthersAreKept() throws IOException {
    InternalRow row =
        row(
            1,
            TestSink.bytes("value"),
            false,
            TestSink.header("zeros", new byte[2 * MEBIBYTE]),
            TestSink.header("traceparent", "00"));
    Map<String, String> written = write(row, "inheritedHeaders", "*");
    assertEquals(Map.of("out/0", "0,0,1", "dropped-headers", "1"), written);
    assertEquals("00", text(sent(), "traceparent"));
    assertNull(sent().headers().lastHeader("zeros"));
    assertEquals("1", text(sent(), DROPPED));
  }

  @Test
  void headersBeyondTheLargestNumberAreDroppedAndCounted() throws IOException {
    Map<String, String> written =
        write(row(1, TestSink.bytes("value"), false, many(10_000)), "inheritedHeaders", "*");
    assertEquals("9900", written.get("dropped-headers"));
    assertEquals("h99", sent().headers().toArray()[4 + 99].key());
    assertEquals("9900", text(sent(), DROPPED));
  }

  @Test
  void headersThatAreNotInheritedDoNotCount() throws IOException {
    Map<String, String> written = write(row(1, TestSink.bytes("value"), false, many(10_000)));
    assertEquals(Map.of("out/0", "0,0,1"), written);
    assertNull(sent().headers().lastHeader(DROPPED));
  }

  @Test
  void aLongStampOfTheParentIsShortened() throws IOException {
    InternalRow[] stamp = {
      TestSink.header("job_name", new byte[2 * MEBIBYTE]),
      TestSink.header("job_version", "v1"),
      TestSink.header("batch_version", "0")
    };
    write(row(1, TestSink.bytes("value"), false, stamp));
    assertTrue(
        text(sent(), "parent_lineage")
            .endsWith("…}\",\"{job_version, v1}\",\"{batch_version, 0}\"]"));
  }

  @Test
  void aRecordAboveTheLimitBecomesAReferenceThatFits() throws IOException {
    InternalRow row = row(200_000, new byte[900_000], false, TestSink.header("traceparent", "00"));
    Map<String, String> written = write(row, "inheritedHeaders", "*");
    assertEquals(Map.of("out-dead-letter/0", "0,0,1"), written);
    String value = TestSink.valueOf(sent());
    assertTrue(value.startsWith("{\"address\":\"in/0@7\",\"size\":900000,\"sha256\":"), value);
    assertNull(sent().key());
    assertEquals("headwater.TooLarge", text(sent(), "__connect.errors.exception.class.name"));
    assertTrue(text(sent(), "__connect.errors.exception.message").endsWith(" allows 1048576"));
    assertTrue(text(sent(), "lineage").endsWith(" in/0@7"));
    assertEquals("1", text(sent(), DROPPED));
  }

  @Test
  void theLimitIsThatOfTheProducer() throws IOException {
    write(row(200_000, new byte[900_000], false), "kafka.max.request.size", "2097152");
    assertEquals("out", producer.history().get(0).topic());
  }

  @Test
  void aDeadLetterKeepsAllHeadersOfItsParentUpToTheLimits() throws IOException {
    write(row(1, TestSink.bytes("raw"), true, many(101)));
    assertEquals("v", text(sent(), "h99"));
    assertEquals("1", text(sent(), DROPPED));
    assertEquals("BadValue", text(sent(), "__connect.errors.exception.class.name"));
    assertTrue(text(sent(), "__connect.errors.exception.message").length() < 5000);
  }

  @Test
  void aDeadLetterAboveTheLimitKeepsItsReasonAndIfPossibleItsValue() throws IOException {
    write(row(MEBIBYTE, TestSink.bytes("raw"), true, many(2)));
    assertEquals("raw", TestSink.valueOf(sent()));
    assertNull(sent().key());
    assertEquals("BadValue", text(sent(), "__connect.errors.exception.class.name"));
    assertEquals("2", text(sent(), DROPPED));
    producer.clear();
    write(row(200_000, new byte[900_000], true));
    assertTrue(TestSink.valueOf(sent()).startsWith("{\"address\":\"in/0@7\",\"size\":900000,"));
    assertEquals("BadValue", text(sent(), "__connect.errors.exception.class.name"));
  }

  @Test
  void addressesOfOtherParentsAreLeftOutIfTheHeaderCanNotBeRead() {
    String topic = "p".repeat(249);
    List<String> addresses =
        java.util.stream.IntStream.range(0, 1000).mapToObj(n -> topic + "/0@" + n).toList();
    ProducerRecord<byte[], byte[]> record = TestSink.record("value", 7);
    LineageHeaders.addUnlisted(record, addresses);
    String lineage = text(record, "lineage");
    assertTrue(lineage.length() <= 64 * 1024);
    assertTrue(lineage.length() > 64 * 1024 - 300, "as many as fit");
    assertTrue(lineage.startsWith("1 " + TestSink.RUN + " in/0@7 >" + topic + "/0@0," + topic));
  }
}
