package dev.headwater.delivery;

import java.io.IOException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/** Sends the records of one task to Kafka. Guarantees of the modes: docs/concepts/delivery.md. */
interface Delivery {
  /** Sends a record; may block until there is space in the buffer, or an acknowledgement. */
  void send(ProducerRecord<byte[], byte[]> record) throws IOException;

  /** Sends a record whose address is needed; the future is completed by {@code flush}. */
  Future<RecordMetadata> post(ProducerRecord<byte[], byte[]> record) throws IOException;

  /** Waits until all records of {@code post} are acknowledged or failed. */
  void flush();

  /**
   * Waits until Kafka has acknowledged all records and returns their offsets; throws for the first
   * failed one.
   */
  WrittenOffsets finish() throws IOException;

  /** Called after a failure of the task: records that are not in flight are not sent. */
  void abort();

  static Delivery of(SinkOptions options, BatchTask batchTask) {
    return switch (options.mode()) {
      case "pipelined" -> new PipelinedDelivery(options);
      case "individual" -> new IndividualDelivery(options, batchTask);
      case "transactional" -> new TransactionalDelivery(options, batchTask);
      default -> throw new IllegalArgumentException("unknown mode: " + options.mode());
    };
  }
}
