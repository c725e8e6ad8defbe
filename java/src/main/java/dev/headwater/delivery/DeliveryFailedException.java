package dev.headwater.delivery;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Headers;

/** Kafka did not accept a record; the message contains its parents. */
final class DeliveryFailedException extends IOException {
  private static final long serialVersionUID = 1L;

  DeliveryFailedException(String what, Throwable cause) {
    super(what + ": " + cause.getClass().getSimpleName() + ": " + cause.getMessage(), cause);
  }

  DeliveryFailedException(String topic, Headers headers, Throwable cause) {
    this("the record for topic " + topic + " made from " + parentsIn(headers), cause);
  }

  DeliveryFailedException(ProducerRecord<byte[], byte[]> record, Throwable cause) {
    this(record.topic(), record.headers(), cause);
  }

  /** The parents in the lineage header, parsed only for errors. */
  static String parentsIn(Headers headers) {
    byte[] lineage = headers.headers("lineage").iterator().next().value();
    return new String(lineage, StandardCharsets.UTF_8).split(" ")[2];
  }
}
