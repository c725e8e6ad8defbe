package dev.headwater.delivery;

import java.io.Serializable;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** The options of the query; serialized to the executors. */
record SinkOptions(
    String mode,
    String queryId,
    String jobName,
    String jobVersion,
    String runId,
    List<String> headerOrder,
    // Whether records have the lineage header alone, which then has the batch; others have the
    // stamp, too.
    boolean compactStamp,
    List<String> droppedHeaders,
    // Names and patterns of headers that are copied from a parent, names excluded from them, and
    // further names and patterns that the user has set.
    List<String> inheritedHeaders,
    List<String> contentHeaders,
    List<String> moreHeaders,
    // Of the headers that are not the job's own.
    int maxHeaderBytes,
    int maxHeaders,
    // The topic of all rows, or null if each row has its own.
    String topic,
    List<String> outputTopics,
    // Of topics for records that list parents which do not fit into the header.
    String parentsSuffix,
    String deadLetterSuffix,
    // Whether a record that Kafka rejects becomes a dead letter; otherwise it stops the job.
    boolean deadLetterFailures,
    // What becomes of a record that is too large with its lineage: `without-lineage` sends it
    // without, `fail` stops the query; otherwise it becomes a dead letter.
    String largeRecords,
    // Whether the records of a task that was aborted are sent nevertheless: before a rerun in this
    // JVM, each record must be acknowledged or never arrive.
    boolean sendsAborted,
    long pauseMillis,
    // The batch id of a batch DataFrame; a stream has its own.
    long batch,
    // Added to every record after its lineage; alternating names and values.
    List<String> ownHeaders,
    // Whether each task has exactly the rows of one input partition.
    boolean oneInputPerTask,
    HashMap<String, Object> producer)
    implements Serializable {

  private static final String KAFKA = "kafka.";

  static SinkOptions of(LogicalWriteInfo info) {
    CaseInsensitiveStringMap options = info.options();
    return new SinkOptions(
        options.get("mode"),
        options.getOrDefault("queryId", info.queryId()),
        options.get("jobName"),
        options.get("jobVersion"),
        options.get("runId"),
        lines(options.get("headerOrder")),
        isCompact(options.getOrDefault("stamp", "full")),
        lines(options.getOrDefault("droppedHeaders", "")),
        lines(options.getOrDefault("inheritedHeaders", "")),
        lines(options.getOrDefault("contentHeaders", "")),
        lines(options.getOrDefault("moreHeaders", "")),
        options.getInt("maxHeaderBytes", 0),
        options.getInt("maxHeaders", 0),
        options.get("topic"),
        lines(options.get("outputTopics")),
        options.get("parentsSuffix"),
        options.get("deadLetterSuffix"),
        options.getBoolean("deadLetterFailures", false),
        options.getOrDefault("largeRecords", "dead-letter"),
        options.getBoolean("sendsAborted", false),
        options.getLong("pauseMillis", 0),
        options.getLong("batch", 0),
        lines(options.getOrDefault("ownHeaders", "")),
        options.getBoolean("oneInputPerTask", false),
        producer(options));
  }

  /** The output that a topic belongs to: itself, or the one with a suffix. */
  String outputOf(String written) {
    String found = null;
    for (String output : outputTopics) {
      boolean belongs = written.equals(output) || written.startsWith(output + "-");
      if (belongs && (found == null || output.length() > found.length())) {
        found = output;
      }
    }
    return found == null ? outputTopics.get(0) : found;
  }

  private static boolean isCompact(String stamp) {
    return switch (stamp) {
      case "full" -> false;
      case "compact" -> true;
      default -> throw new IllegalArgumentException("stamp: full or compact, not " + stamp);
    };
  }

  private static HashMap<String, Object> producer(CaseInsensitiveStringMap options) {
    HashMap<String, Object> properties = new HashMap<>();
    for (Map.Entry<String, String> option : options.asCaseSensitiveMap().entrySet()) {
      if (option.getKey().startsWith(KAFKA)) {
        properties.put(option.getKey().substring(KAFKA.length()), option.getValue());
      }
    }
    properties.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
    properties.put(
        ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
    return properties;
  }

  private static List<String> lines(String text) {
    return text.isEmpty() ? List.of() : List.of(text.split("\n"));
  }
}
