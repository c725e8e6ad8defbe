package dev.headwater.rowlineage;

import dev.headwater.delivery.LineageSink;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Which sink writes the rows of a query to Kafka: Headwater's, or Spark's with one more header.
 *
 * @param replaced whether it is Headwater's
 * @param reason why it is not although the settings ask for it, else null
 */
record SinkChoice(boolean replaced, String reason) {
  private static final String TOKENS = "spark.kafka.clusters.";
  private static final String LOGIN = "kafka.sasl.jaas.config";

  /**
   * @param source options of the query's source: those of its sink are not in the plan
   */
  static SinkChoice of(
      RowLineageConf conf, SupportsWrite sink, SparkConf spark, Map<String, String> source) {
    if (!conf.sink().equals("headwater")) {
      return new SinkChoice(false, null);
    }
    String reason = hasTokens(spark, source) ? tokensReason() : missingReason(sink);
    return new SinkChoice(reason == null, reason);
  }

  private static boolean hasTokens(SparkConf spark, Map<String, String> source) {
    return spark.getAllWithPrefix(TOKENS).length > 0
        && source.keySet().stream().noneMatch(key -> key.toLowerCase(Locale.ROOT).equals(LOGIN));
  }

  private static String tokensReason() {
    return "delegation tokens (" + TOKENS + "*) are passed to Spark's own sink only";
  }

  /** What a later version of Spark's sink may offer, and jobs use. */
  private static String missingReason(SupportsWrite sink) {
    WriteBuilder builder;
    try {
      builder = sink.newWriteBuilder(new NoOptions());
    } catch (RuntimeException failed) {
      return "the interfaces of Spark's sink are not known: " + failed;
    }
    Set<String> missing = new TreeSet<>();
    addMissing(builder.getClass(), missing);
    return missing.isEmpty() ? null : "Headwater's sink lacks " + String.join(", ", missing);
  }

  private static void addMissing(Class<?> type, Set<String> missing) {
    for (Class<?> each : type.getInterfaces()) {
      boolean isSpark = each.getName().startsWith("org.apache.spark.");
      if (isSpark && !each.isAssignableFrom(LineageSink.builderType())) {
        missing.add(each.getSimpleName());
      }
      addMissing(each, missing);
    }
    if (type.getSuperclass() != null) {
      addMissing(type.getSuperclass(), missing);
    }
  }

  private record NoOptions() implements LogicalWriteInfo {
    @Override
    public CaseInsensitiveStringMap options() {
      return CaseInsensitiveStringMap.empty();
    }

    @Override
    public String queryId() {
      return "";
    }

    @Override
    public StructType schema() {
      return new StructType();
    }
  }
}
