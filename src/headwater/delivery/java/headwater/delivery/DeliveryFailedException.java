package headwater.delivery;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.clients.producer.ProducerRecord;

/** Kafka did not take a record; the text names the input that it was made from. */
final class DeliveryFailedException extends IOException {
  private static final long serialVersionUID = 1L;

  DeliveryFailedException(String what, Throwable why) {
    super(what + ": " + why.getClass().getSimpleName() + ": " + why.getMessage(), why);
  }

  DeliveryFailedException(String topic, byte[] lineage, Throwable why) {
    this("the record for topic " + topic + " made from " + parentsIn(lineage), why);
  }

  DeliveryFailedException(ProducerRecord<byte[], byte[]> record, Throwable why) {
    this(record.topic(), lineageOf(record), why);
  }

  static byte[] lineageOf(ProducerRecord<byte[], byte[]> record) {
    return record.headers().headers("lineage").iterator().next().value();
  }

  static String parentsOf(ProducerRecord<byte[], byte[]> record) {
    return parentsIn(lineageOf(record));
  }

  /** The third word of a record's own lineage: read back only when there is a need. */
  private static String parentsIn(byte[] lineage) {
    return new String(lineage, StandardCharsets.UTF_8).split(" ")[2];
  }
}
