package headwater.delivery;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Headers;

/** Kafka did not take a record; the text names the input that it was made from. */
final class DeliveryFailedException extends IOException {
  private static final long serialVersionUID = 1L;

  DeliveryFailedException(String what, Throwable why) {
    super(what + ": " + why.getClass().getSimpleName() + ": " + why.getMessage(), why);
  }

  DeliveryFailedException(String topic, Headers headers, Throwable why) {
    this("the record for topic " + topic + " made from " + parentsIn(headers), why);
  }

  DeliveryFailedException(ProducerRecord<byte[], byte[]> record, Throwable why) {
    this(record.topic(), record.headers(), why);
  }

  /** The third word of a record's own lineage: read back only when there is a need. */
  static String parentsIn(Headers headers) {
    byte[] lineage = headers.headers("lineage").iterator().next().value();
    return new String(lineage, StandardCharsets.UTF_8).split(" ")[2];
  }
}
