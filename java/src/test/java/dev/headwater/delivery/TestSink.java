package dev.headwater.delivery;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.Callback;
import org.apache.kafka.clients.producer.MockProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import org.apache.spark.unsafe.types.UTF8String;

/** Options, records and producers for tests of the sink. */
final class TestSink {
  static final String RUN = "0190c5f2-1111-7222-8333-444455556666";
  static final int TOO_LARGE = 1000;

  private TestSink() {}

  /** The sink's options as `delivery/sink.py` sets them, changed by names and values. */
  static SinkOptions options(String... changed) {
    Map<String, String> options = new HashMap<>();
    options.put("mode", "pipelined");
    options.put("queryId", "query");
    options.put("jobName", "job");
    options.put("jobVersion", "v1");
    options.put("runId", RUN);
    options.put("headerOrder", "job_name\njob_version\nbatch_version");
    options.put("outputTopics", "out");
    options.put("parentsSuffix", "-parents");
    options.put("deadLetterSuffix", "-dead-letter");
    options.put("maxHeaderBytes", "65536");
    options.put("maxHeaders", "100");
    for (int at = 0; at < changed.length; at += 2) {
      options.put(changed[at], changed[at + 1]);
    }
    return SinkOptions.of(
        new LogicalWriteInfo() {
          @Override
          public CaseInsensitiveStringMap options() {
            return new CaseInsensitiveStringMap(options);
          }

          @Override
          public String queryId() {
            return "of Spark";
          }

          @Override
          public StructType schema() {
            return new StructType();
          }
        });
  }

  /** A record for topic `out` that is derived from a record of `in/0`. */
  static ProducerRecord<byte[], byte[]> record(String value, long parentOffset) {
    String lineage = "1 " + RUN + " in/0@" + parentOffset;
    List<Header> headers = List.of(LineageHeaders.header("lineage", lineage));
    return new ProducerRecord<>("out", 0, bytes("key"), bytes(value), headers);
  }

  /** A header as Spark's source gives it. */
  static InternalRow header(String name, String value) {
    return header(name, bytes(value));
  }

  static InternalRow header(String name, byte[] value) {
    return new GenericInternalRow(new Object[] {UTF8String.fromString(name), value});
  }

  static byte[] bytes(String text) {
    return text.getBytes(StandardCharsets.UTF_8);
  }

  /** The values that a producer was asked to send, in order. */
  static List<String> sent(MockProducer<byte[], byte[]> producer) {
    return producer.history().stream().map(TestSink::valueOf).toList();
  }

  static String valueOf(ProducerRecord<byte[], byte[]> record) {
    return new String(record.value(), StandardCharsets.UTF_8);
  }

  static MockProducer<byte[], byte[]> producer(boolean acknowledgesAtOnce) {
    return new RejectingProducer(acknowledgesAtOnce);
  }

  /** Rejects large values as Kafka's producer does: by the callback, not by an exception. */
  private static final class RejectingProducer extends MockProducer<byte[], byte[]> {
    RejectingProducer(boolean autoComplete) {
      super(autoComplete, new ByteArraySerializer(), new ByteArraySerializer());
    }

    @Override
    public synchronized Future<RecordMetadata> send(
        ProducerRecord<byte[], byte[]> record, Callback callback) {
      if (record.value() != null && record.value().length >= TOO_LARGE) {
        RecordTooLargeException error = new RecordTooLargeException("too large");
        callback.onCompletion(null, error);
        return CompletableFuture.failedFuture(error);
      }
      return super.send(record, callback);
    }

    /** Kafka's producer does not refuse it after `close`. */
    @Override
    public synchronized void flush() {
      if (!closed()) {
        super.flush();
      }
    }
  }
}
