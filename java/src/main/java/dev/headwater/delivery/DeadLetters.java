package dev.headwater.delivery;

import java.io.IOException;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.Producer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.errors.RecordTooLargeException;
import org.apache.kafka.common.header.Header;

/**
 * Records that Kafka rejects permanently, such as for their size. With a topic for failures a
 * reference is sent there, and the job continues.
 */
final class DeadLetters {
  private record Rejected(ProducerRecord<byte[], byte[]> record, Exception error) {}

  private final SinkOptions options;
  private final Queue<Rejected> waiting = new ConcurrentLinkedQueue<>();

  DeadLetters(SinkOptions options) {
    this.options = options;
  }

  boolean isEnabled() {
    return options.failuresSuffix() != null;
  }

  boolean accepts(Throwable error) {
    return isEnabled()
        && (error instanceof RecordTooLargeException || error instanceof InvalidRecordException);
  }

  /** Called on the producer's thread, which must not block: the task's thread sends it. */
  void add(ProducerRecord<byte[], byte[]> record, Exception error) {
    waiting.add(new Rejected(record, error));
  }

  void sendAll(Producer<byte[], byte[]> producer, WrittenOffsets written) throws IOException {
    for (Rejected one = waiting.poll(); one != null; one = waiting.poll()) {
      send(producer, one.record(), one.error(), written);
    }
  }

  void send(
      Producer<byte[], byte[]> producer,
      ProducerRecord<byte[], byte[]> record,
      Exception error,
      WrittenOffsets written)
      throws IOException {
    String address = DeliveryFailedException.parentsIn(record.headers());
    String topic = options.outputOf(record.topic()) + options.failuresSuffix();
    ProducerRecord<byte[], byte[]> reference =
        new ProducerRecord<>(topic, null, record.key(), reference(address, record.value()));
    for (Header header : record.headers()) {
      reference.headers().add(header);
    }
    for (Header header : ConnectErrors.ofRejected(address, options.jobName(), error)) {
      reference.headers().add(header);
    }
    try {
      written.add(producer.send(reference).get());
    } catch (ExecutionException failed) {
      throw new DeliveryFailedException(reference, failed.getCause());
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new DeliveryFailedException(reference, stopped);
    }
  }

  private static byte[] reference(String address, byte[] value) {
    int size = value == null ? 0 : value.length;
    Bytes out = new Bytes().add("{\"address\":\"").add(address).add("\",\"size\":").add(size);
    return out.add(",\"sha256\":\"").add(sha256(value)).add("\"}").toArray();
  }

  private static String sha256(byte[] value) {
    try {
      byte[] hashed = value == null ? new byte[0] : value;
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(hashed));
    } catch (NoSuchAlgorithmException missing) {
      throw new IllegalStateException(missing);
    }
  }
}
