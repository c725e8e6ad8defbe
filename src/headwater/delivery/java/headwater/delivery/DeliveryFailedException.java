package headwater.delivery;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;

/** Kafka did not take a record; the text names the input that it was made from. */
final class DeliveryFailedException extends IOException {
  private static final long serialVersionUID = 1L;

  DeliveryFailedException(String what, Throwable why) {
    super(what + ": " + why.getClass().getSimpleName() + ": " + why.getMessage(), why);
  }

  DeliveryFailedException(ProducerRecord<byte[], byte[]> record, Throwable why) {
    this("the record for topic " + record.topic() + " made from " + parentsOf(record), why);
  }

  /** The third word of the record's own lineage: read back only when there is a need. */
  static String parentsOf(ProducerRecord<byte[], byte[]> record) {
    Header lineage = record.headers().headers("lineage").iterator().next();
    return new String(lineage.value(), StandardCharsets.UTF_8).split(" ")[2];
  }
}
