package dev.headwater.delivery;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * The records that a task or a batch has written: first offset, last offset and count by topic and
 * partition. Other writers may have records in between.
 */
final class WrittenOffsets implements WriterCommitMessage {
  private static final long serialVersionUID = 1L;
  private static final int FIRST = 0;
  private static final int LAST = 1;
  private static final int COUNT = 2;

  // Ranges by topic, then by partition; null if nothing was written.
  private final Map<String, long[][]> topics = new HashMap<>();
  private long withoutParents;
  private long droppedHeaders;
  // Entries of an interrupted batch that each task has left out.
  private final List<BitSet> leftOut = new ArrayList<>();
  private transient String lastTopic;
  private transient long[][] ofLastTopic;

  /** Called on the producer's thread for every record; nearly all have the same topic. */
  synchronized void add(RecordMetadata at) {
    if (at.hasOffset()) {
      add(at.topic(), at.partition(), at.offset(), at.offset(), 1);
    }
  }

  /** Rows without lineage. */
  synchronized void addWithoutParents(long rows) {
    withoutParents += rows;
  }

  /** Headers that exceeded the limits. */
  synchronized void addDroppedHeaders(long headers) {
    droppedHeaders += headers;
  }

  /** Records that an interrupted attempt of the batch has written. */
  synchronized void addLeftOut(BitSet entries) {
    leftOut.add(entries);
  }

  synchronized List<BitSet> leftOut() {
    return List.copyOf(leftOut);
  }

  /** The offset after the last record, by partition. */
  synchronized Map<Integer, Long> endsOf(String topic) {
    Map<Integer, Long> ends = new HashMap<>();
    long[][] ranges = topics.getOrDefault(topic, new long[0][]);
    for (int partition = 0; partition < ranges.length; partition++) {
      if (ranges[partition] != null) {
        ends.put(partition, ranges[partition][LAST] + 1);
      }
    }
    return ends;
  }

  synchronized void addAll(WrittenOffsets other) {
    withoutParents += other.withoutParents;
    droppedHeaders += other.droppedHeaders;
    leftOut.addAll(other.leftOut);
    other.topics.forEach(
        (topic, ranges) -> {
          for (int partition = 0; partition < ranges.length; partition++) {
            long[] range = ranges[partition];
            if (range != null) {
              add(topic, partition, range[FIRST], range[LAST], range[COUNT]);
            }
          }
        });
  }

  private void add(String topic, int partition, long first, long last, long count) {
    if (!topic.equals(lastTopic)) {
      lastTopic = topic;
      ofLastTopic = topics.computeIfAbsent(topic, missing -> new long[1][]);
    }
    if (partition >= ofLastTopic.length) {
      ofLastTopic = Arrays.copyOf(ofLastTopic, Math.max(partition + 1, 2 * ofLastTopic.length));
      topics.put(topic, ofLastTopic);
    }
    long[] range = ofLastTopic[partition];
    if (range == null) {
      ofLastTopic[partition] = new long[] {first, last, count};
    } else {
      range[FIRST] = Math.min(range[FIRST], first);
      range[LAST] = Math.max(range[LAST], last);
      range[COUNT] += count;
    }
  }

  /** For Spark's progress: `visits/0` -> `17,19,3`, which are first, last and count. */
  synchronized Map<String, String> metrics() {
    Map<String, String> metrics = new TreeMap<>();
    topics.forEach(
        (topic, ranges) -> {
          for (int partition = 0; partition < ranges.length; partition++) {
            long[] range = ranges[partition];
            if (range != null) {
              String text = range[FIRST] + "," + range[LAST] + "," + range[COUNT];
              metrics.put(topic + "/" + partition, text);
            }
          }
        });
    if (withoutParents > 0) {
      metrics.put("without-parents", Long.toString(withoutParents));
    }
    if (droppedHeaders > 0) {
      metrics.put("dropped-headers", Long.toString(droppedHeaders));
    }
    return metrics;
  }
}
