package dev.headwater.delivery;

import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.header.Header;

/**
 * Sends records that the producer would reject for their size to the dead letter topic, by
 * reference. The producer counts key, value and headers before compression.
 */
final class SizeLimit {
  private static final String TOO_LARGE = "headwater.TooLarge";
  private static final int DEFAULT_MAX_REQUEST_BYTES = 1024 * 1024;
  // Upper bounds of what the producer adds for a batch with one record, and for a header.
  private static final int RECORD_OVERHEAD = 100;
  private static final int HEADER_OVERHEAD = 10;
  // Of the job's own headers: the stamp and that of the parent, with the longest lineage.
  private static final int OWN_HEADER_BYTES = 2 * LineageHeaders.MAX_LINEAGE_BYTES;

  private final DeadLetterReference references;
  private final String largeRecords;
  private final int limit;
  private final int surelyFits;

  SizeLimit(SinkOptions options) {
    references = new DeadLetterReference(options);
    largeRecords = options.largeRecords();
    Object configured = options.producer().get(ProducerConfig.MAX_REQUEST_SIZE_CONFIG);
    limit =
        configured == null ? DEFAULT_MAX_REQUEST_BYTES : Integer.parseInt(configured.toString());
    long headers = options.maxHeaderBytes() + options.maxHeaders() * (long) HEADER_OVERHEAD;
    surelyFits = (int) Math.max(limit - RECORD_OVERHEAD - OWN_HEADER_BYTES - headers, -1);
  }

  /**
   * The record itself, or what is sent instead.
   *
   * @param reserved bytes that will be added to its headers
   */
  ProducerRecord<byte[], byte[]> fit(
      ProducerRecord<byte[], byte[]> record, boolean deadLetter, int reserved) {
    long content = length(record.key()) + (long) length(record.value());
    if (content <= surelyFits) {
      return record;
    }
    long size = RECORD_OVERHEAD + content + reserved;
    for (Header header : record.headers()) {
      // A character has at most three bytes.
      size += HEADER_OVERHEAD + 3L * header.key().length() + length(header.value());
    }
    if (size <= limit) {
      return record;
    }
    if (largeRecords.equals("fail")) {
      throw new ExactlyOnceException(
          "a record for topic "
              + record.topic()
              + " made from "
              + DeliveryFailedException.parentsIn(record.headers())
              + " has "
              + size
              + " bytes with its lineage, by which it is recognized: raise kafka.max.request.size ("
              + limit
              + ") of the sink and max.message.bytes of the topic");
    }
    if (largeRecords.equals("without-lineage")) {
      LineageHeaders.OWN.forEach(record.headers()::remove);
      return record;
    }
    if (deadLetter) {
      return references.ofDeadLetter(record, Math.max(surelyFits, 0));
    }
    String message =
        "key, value and headers have " + size + " bytes, max.request.size allows " + limit;
    return references.of(record, TOO_LARGE, message);
  }

  private static int length(byte[] bytes) {
    return bytes == null ? 0 : bytes.length;
  }
}
