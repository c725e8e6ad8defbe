package headwater.delivery;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.spark.sql.connector.write.WriterCommitMessage;

/**
 * Which records a task, or a batch, has written: by topic and partition the first and the last
 * offset, and how many. Others may have written between them.
 */
final class Written implements WriterCommitMessage {
  private static final long serialVersionUID = 1L;
  private static final int FIRST = 0;
  private static final int LAST = 1;
  private static final int COUNT = 2;

  // By topic, and there by partition; null where nothing was written.
  private final Map<String, long[][]> topics = new HashMap<>();
  private long withoutParents;
  private transient String lastTopic;
  private transient long[][] ofLastTopic;

  /** On the producer's thread, for every record: nearly all are of one topic. */
  synchronized void add(RecordMetadata at) {
    if (at.hasOffset()) {
      add(at.topic(), at.partition(), at.offset(), at.offset(), 1);
    }
  }

  /** Rows that do not tell what they were made from. */
  synchronized void addWithoutParents(long rows) {
    withoutParents += rows;
  }

  synchronized void addAll(Written other) {
    withoutParents += other.withoutParents;
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

  /** For Spark's progress: `visits/0` and `17,19,3`, which is first, last and count. */
  synchronized Map<String, String> metrics() {
    Map<String, String> found = new TreeMap<>();
    topics.forEach(
        (topic, ranges) -> {
          for (int partition = 0; partition < ranges.length; partition++) {
            long[] range = ranges[partition];
            if (range != null) {
              String text = range[FIRST] + "," + range[LAST] + "," + range[COUNT];
              found.put(topic + "/" + partition, text);
            }
          }
        });
    if (withoutParents > 0) {
      found.put("without-parents", Long.toString(withoutParents));
    }
    return found;
  }
}
