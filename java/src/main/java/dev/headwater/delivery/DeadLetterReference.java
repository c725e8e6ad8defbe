package dev.headwater.delivery;

import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Set;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;

/**
 * Dead letters that name a record instead of containing it. They are small whatever the record
 * contains: no foreign headers, which the record at the address has, and no large key.
 */
final class DeadLetterReference {
  private static final int MAX_KEY_BYTES = 64 * 1024;

  private final SinkOptions options;
  private final Set<String> ownHeaders;

  DeadLetterReference(SinkOptions options) {
    this.options = options;
    ownHeaders = new HashSet<>(LineageHeaders.OWN);
    for (int i = 0; i < options.ownHeaders().size(); i += 2) {
      ownHeaders.add(options.ownHeaders().get(i));
    }
  }

  /** For a record that can't be written, with the reason as Kafka Connect's error headers. */
  ProducerRecord<byte[], byte[]> of(
      ProducerRecord<byte[], byte[]> record, String kind, String message) {
    String address = DeliveryFailedException.parentsIn(record.headers());
    List<Header> errors = ConnectErrors.ofRejected(address, options.jobName(), kind, message);
    return small(record, reference(address, record.value()), errors);
  }

  /** A dead letter without its foreign headers and a large key; the value only if it fits. */
  ProducerRecord<byte[], byte[]> ofDeadLetter(
      ProducerRecord<byte[], byte[]> letter, int maxValueBytes) {
    String address = DeliveryFailedException.parentsIn(letter.headers());
    List<Header> errors = new ArrayList<>();
    Set<String> names = new HashSet<>();
    for (Header header : letter.headers()) {
      // Its own come first; a parent that is a dead letter, too, has the same names.
      if (header.key().startsWith(ConnectErrors.PREFIX) && names.add(header.key())) {
        errors.add(header);
      }
    }
    byte[] value = letter.value();
    boolean fits = value == null || value.length <= maxValueBytes;
    return small(letter, fits ? value : reference(address, value), errors);
  }

  private ProducerRecord<byte[], byte[]> small(
      ProducerRecord<byte[], byte[]> record, byte[] value, List<Header> errors) {
    String topic = options.outputOf(record.topic()) + options.deadLetterSuffix();
    byte[] key = record.key() == null || record.key().length > MAX_KEY_BYTES ? null : record.key();
    List<Header> headers = new ArrayList<>();
    long dropped = 0;
    for (Header header : record.headers()) {
      if (header.key().equals(LineageHeaders.DROPPED_HEADERS)) {
        dropped += LineageHeaders.droppedIn(header);
      } else if (ownHeaders.contains(header.key())) {
        headers.add(header);
      } else if (!header.key().startsWith(ConnectErrors.PREFIX)) {
        dropped++;
      }
    }
    headers.addAll(errors);
    if (dropped > 0) {
      headers.add(LineageHeaders.header(LineageHeaders.DROPPED_HEADERS, Long.toString(dropped)));
    }
    return new ProducerRecord<>(topic, null, key, value, headers);
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
