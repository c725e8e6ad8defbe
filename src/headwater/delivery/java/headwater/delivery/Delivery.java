package headwater.delivery;

import java.io.IOException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** A way to hand the records of one task to Kafka. What each promises: docs/concepts/delivery.md. */
interface Delivery {
  /** Takes a record; it may wait for room, or for the answer. */
  void send(ProducerRecord<byte[], byte[]> record) throws IOException;

  /** Sends a record whose address is asked for; the answer is there after {@code flush}. */
  Future<RecordMetadata> post(ProducerRecord<byte[], byte[]> record) throws IOException;

  /** Returns when all that was posted is answered. */
  void flush();

  /**
   * Returns when Kafka has acknowledged all records, with their addresses, or fails with the first
   * that it has not.
   */
  Written finish() throws IOException;

  /** The task has failed: what is not on its way yet stays here. */
  void giveUp();

  static Delivery of(SinkOptions options, TaskOfBatch place) {
    return switch (options.mode()) {
      case "pipelined" -> new PipelinedDelivery(options);
      case "individual" -> new IndividualDelivery(options, place);
      case "transactional" -> new TransactionalDelivery(options, place);
      default -> throw new IllegalArgumentException("unknown mode: " + options.mode());
    };
  }
}
