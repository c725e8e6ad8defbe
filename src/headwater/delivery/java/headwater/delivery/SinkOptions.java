package headwater.delivery;

import java.io.Serializable;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/** What the query was started with; goes to the executors. */
record SinkOptions(
    String mode,
    String queryId,
    String jobName,
    String jobVersion,
    String runId,
    List<String> headerOrder,
    List<String> droppedHeaders,
    String outputTopic,
    // For records that list the parents which a header has no room for.
    String parentsTopic,
    // Null: a record that Kafka refuses stops the job.
    String failuresTopic,
    long pauseMillis,
    // The number of the batch, where the rows come in one; a stream numbers its own.
    long batch,
    // Put on every record behind its lineage, as name and value in turn.
    List<String> ownHeaders,
    // Whether a task has the rows of one partition of the input, all of them and no others.
    boolean lanesOfInput,
    HashMap<String, Object> producer)
    implements Serializable {

  private static final String KAFKA = "kafka.";

  static SinkOptions of(LogicalWriteInfo info) {
    CaseInsensitiveStringMap given = info.options();
    return new SinkOptions(
        given.get("mode"),
        given.getOrDefault("queryId", info.queryId()),
        given.get("jobName"),
        given.get("jobVersion"),
        given.get("runId"),
        words(given.get("headerOrder")),
        words(given.getOrDefault("droppedHeaders", "")),
        given.get("outputTopic"),
        given.get("parentsTopic"),
        given.get("failuresTopic"),
        given.getLong("pauseMillis", 0),
        given.getLong("batch", 0),
        words(given.getOrDefault("ownHeaders", "")),
        given.getBoolean("lanesOfInput", false),
        producer(given));
  }

  private static HashMap<String, Object> producer(CaseInsensitiveStringMap given) {
    HashMap<String, Object> properties = new HashMap<>();
    for (Map.Entry<String, String> option : given.asCaseSensitiveMap().entrySet()) {
      if (option.getKey().startsWith(KAFKA)) {
        properties.put(option.getKey().substring(KAFKA.length()), option.getValue());
      }
    }
    properties.put(ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
    properties.put(
        ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, ByteArraySerializer.class.getName());
    return properties;
  }

  private static List<String> words(String text) {
    return text.isEmpty() ? List.of() : List.of(text.split("\n"));
  }
}
