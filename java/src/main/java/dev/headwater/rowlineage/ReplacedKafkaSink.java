package dev.headwater.rowlineage;

import dev.headwater.delivery.CommittedBatches;
import dev.headwater.delivery.ExactlyOnce;
import dev.headwater.delivery.ExactlyOnceException;
import dev.headwater.delivery.LineageSink;
import dev.headwater.delivery.OtherDelivery;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Headwater's sink in place of Spark's Kafka sink, with the options that the job gave to Spark's.
 *
 * <p>The plan of a query does not contain the options of its sink; Spark passes them when the query
 * runs. It also compares the name of a sink with those that it knows, so the name remains.
 */
final class ReplacedKafkaSink implements SupportsWrite, ReportsSinkMetrics {
  private static final String PARENTS_SUFFIX = "-parents";
  // As for the default delivery of Headwater's own jobs (`delivery/modes.py`).
  private static final Map<String, String> PRODUCER =
      Map.of(
          "kafka.linger.ms", "20", "kafka.compression.type", "lz4", "kafka.max.block.ms", "120000");
  private static final Map<String, String> RELIABLE =
      Map.of(
          "kafka.acks", "all",
          "kafka.enable.idempotence", "true",
          "kafka.max.in.flight.requests.per.connection", "5");
  private static final int BATCH_BYTES = 256 * 1024;
  // Headers of the job's own: as many as Kafka takes.
  private static final int ALL_HEADERS = 100_000;

  private final SupportsWrite original;
  private final StructType schema;
  private final RowLineageConf conf;
  // Null unless the delivery is transactional.
  private final CommittedBatches committed;
  private final QueryRun run;
  private final RowLineageStatus status;
  private final boolean manyParents;
  // One of them is null.
  private final ExactlyOnce exactlyOnce;
  private final OtherDelivery otherDelivery;
  private final SupportsWrite sink;

  /**
   * @param schema of the rows that the job writes
   * @param manyParents whether a row may have more parents than a header lists
   */
  ReplacedKafkaSink(
      SupportsWrite original,
      StructType schema,
      RowLineageConf conf,
      CommittedBatches committed,
      QueryRun run,
      RowLineageStatus status,
      boolean manyParents,
      ExactlyOnce exactlyOnce,
      OtherDelivery otherDelivery) {
    this.original = original;
    this.schema = schema;
    this.conf = conf;
    this.committed = committed;
    this.run = run;
    this.status = status;
    this.manyParents = manyParents;
    this.exactlyOnce = exactlyOnce;
    this.otherDelivery = otherDelivery;
    this.sink = LineageSink.table(exactlyOnce);
  }

  @Override
  public String name() {
    return original.name();
  }

  @Override
  public StructType schema() {
    return new StructType();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return sink.capabilities();
  }

  @Override
  public Map<String, String> metrics() {
    return ((ReportsSinkMetrics) sink).metrics();
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    // Whatever Spark's sink refuses is refused with its own error.
    original
        .newWriteBuilder(new Info(info.options(), info.queryId(), schema))
        .build()
        .toStreaming();
    CaseInsensitiveStringMap options = new CaseInsensitiveStringMap(options(info));
    if (otherDelivery != null) {
      otherDelivery.before();
    }
    return sink.newWriteBuilder(new Info(options, info.queryId(), info.schema()));
  }

  private Map<String, String> options(LogicalWriteInfo info) {
    CaseInsensitiveStringMap given = info.options();
    Map<String, String> options = new HashMap<>(given.asCaseSensitiveMap());
    String topic = given.get("topic");
    boolean transactional = conf.delivery().equals("transactional");
    if (exactlyOnce != null) {
      refuseUnsafe(given);
    }
    addDefaults(options, given, transactional, exactlyOnce != null);
    KafkaTopics topics = new KafkaTopics(options);
    int limit = topics.maxMessageBytes(topic);
    if (!given.containsKey("kafka.batch.size")) {
      // A batch above the topic's limit would be rejected with all its records.
      options.put("kafka.batch.size", String.valueOf(Math.min(limit, BATCH_BYTES)));
    }
    options.put("mode", transactional ? "transactional" : "pipelined");
    options.put("jobName", run.name());
    options.put("jobVersion", conf.jobVersion());
    options.put("runId", run.runId());
    options.put("stamp", conf.stamp());
    options.put("headerOrder", "job_name\njob_version\nbatch_version");
    options.put("outputTopics", topic == null ? "" : topic.trim());
    options.put("largeRecords", exactlyOnce == null ? "without-lineage" : "fail");
    // A restart in the same process waits until all records are acknowledged.
    options.put("sendsAborted", String.valueOf(exactlyOnce != null));
    options.put("maxHeaders", String.valueOf(ALL_HEADERS));
    options.put("maxHeaderBytes", String.valueOf(Integer.MAX_VALUE / 2));
    options.put("deadLetterSuffix", "-dead-letter");
    if (topic != null && manyParents && topics.ensure(topic.trim() + PARENTS_SUFFIX)) {
      options.put("parentsSuffix", PARENTS_SUFFIX);
    }
    addInherited(options);
    if (conf.isCompact()) {
      conf.runs().write(run, status, options);
    } else {
      conf.runs().writeLater(run, status, options, true);
    }
    if (committed != null) {
      committed.compare(new Info(new CaseInsensitiveStringMap(options), info.queryId(), schema));
    }
    return options;
  }

  /** The job's own options take precedence. */
  static void addDefaults(
      Map<String, String> options,
      CaseInsensitiveStringMap given,
      boolean transactional,
      boolean exactlyOnce) {
    PRODUCER.forEach((name, value) -> addMissing(options, given, name, value));
    boolean chosen = RELIABLE.keySet().stream().anyMatch(given::containsKey);
    if (!chosen && !given.containsKey("kafka.retries")) {
      options.putAll(RELIABLE);
    }
    if (transactional || exactlyOnce) {
      options.putAll(RELIABLE);
      options.put("kafka.max.in.flight.requests.per.connection", "1");
    }
    if (transactional) {
      addMissing(options, given, "kafka.transaction.timeout.ms", "600000");
    }
  }

  private static void refuseUnsafe(CaseInsensitiveStringMap given) {
    if (given.get("topic") == null) {
      throw new ExactlyOnceException(
          "the sink has no option topic: rows that name their topics have no output that can be "
              + "read after an interrupted batch");
    }
    if (given.getBoolean("asyncProgressTrackingEnabled", false)) {
      throw new ExactlyOnceException(
          "asyncProgressTrackingEnabled=true commits batches later than they are written");
    }
    for (String name : List.of("kafka.transactional.id", "kafka.interceptor.classes")) {
      if (given.containsKey(name)) {
        throw new ExactlyOnceException("remove the option " + name + "=" + given.get(name));
      }
    }
  }

  private static void addMissing(
      Map<String, String> options, CaseInsensitiveStringMap given, String name, String value) {
    if (!given.containsKey(name)) {
      options.put(name, value);
    }
  }

  private void addInherited(Map<String, String> options) {
    if (conf.readsHeaders()) {
      options.put("inheritedHeaders", "traceparent\ntracestate\nbaggage");
      if (!conf.inheritHeaders().equalsIgnoreCase("true")) {
        options.put("moreHeaders", String.join("\n", conf.inheritHeaders().split("\\s*,\\s*")));
      }
    }
  }

  private record Info(CaseInsensitiveStringMap options, String queryId, StructType schema)
      implements LogicalWriteInfo {}
}
