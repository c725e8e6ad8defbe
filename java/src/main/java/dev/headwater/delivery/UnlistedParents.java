package dev.headwater.delivery;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Sends records with more parents than a header lists. The others are listed by separate records,
 * which are written first, so that the header can contain their addresses.
 *
 * <p>Waiting for each one would be slow: some hundred records are collected, together with records
 * that follow them, to keep the order.
 */
final class UnlistedParents {
  private static final int MAX_COLLECTED = 500;

  private record Waiting(
      ProducerRecord<byte[], byte[]> record, List<Future<RecordMetadata>> listed) {}

  private final Delivery delivery;
  private final LineageHeaders headers;
  private final SinkOptions options;
  // Null unless the delivery needs it.
  private final RunFence fence;
  private final Deque<Waiting> waiting = new ArrayDeque<>();

  UnlistedParents(Delivery delivery, LineageHeaders headers, SinkOptions options, RunFence fence) {
    this.delivery = delivery;
    this.headers = headers;
    this.options = options;
    this.fence = fence;
  }

  boolean isEmpty() {
    return waiting.isEmpty();
  }

  /** Sends the record after all previous ones; {@code unlisted} may be null. */
  void send(ProducerRecord<byte[], byte[]> record, String unlisted, String recordId)
      throws IOException {
    List<Future<RecordMetadata>> listed = new ArrayList<>();
    if (unlisted != null) {
      String topic = options.outputOf(record.topic()) + options.parentsSuffix();
      byte[] key = recordId.getBytes(StandardCharsets.US_ASCII);
      for (ParentListing.Part part : ParentListing.of(unlisted)) {
        listed.add(
            delivery.post(
                new ProducerRecord<>(
                    topic, null, key, new byte[0], headers.ofUnlisted(part, listed.size()))));
      }
    }
    waiting.add(new Waiting(record, listed));
    if (waiting.size() >= MAX_COLLECTED) {
      sendAll();
    }
  }

  void sendAll() throws IOException {
    if (waiting.isEmpty()) {
      return;
    }
    delivery.flush();
    for (Waiting one = waiting.poll(); one != null; one = waiting.poll()) {
      List<String> addresses = new ArrayList<>();
      for (Future<RecordMetadata> listed : one.listed()) {
        RecordMetadata at = await(listed, one.record());
        addresses.add(at.topic() + "/" + at.partition() + "@" + at.offset());
      }
      if (!addresses.isEmpty()) {
        LineageHeaders.addUnlisted(one.record(), addresses);
      }
      if (fence != null) {
        // The records with parents may have taken long.
        fence.check();
      }
      delivery.send(one.record());
    }
  }

  private static RecordMetadata await(
      Future<RecordMetadata> listed, ProducerRecord<byte[], byte[]> record) throws IOException {
    try {
      return listed.get();
    } catch (ExecutionException failed) {
      throw new DeliveryFailedException(record, failed.getCause());
    } catch (InterruptedException stopped) {
      Thread.currentThread().interrupt();
      throw new DeliveryFailedException(record, stopped);
    }
  }
}
