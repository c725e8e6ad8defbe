package dev.headwater.rowlineage;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import org.apache.spark.sql.RuntimeConfig;

/**
 * The settings of row lineage: configuration of the Spark session when a query is started.
 *
 * @param sink `headwater` replaces Spark's Kafka sink, `headers` adds a header for it
 * @param stamp `compact` for the lineage header alone, `full` for name, version and batch, too
 * @param runsTopic compacted topic with the job of each run, for the compact stamp
 * @param inheritHeaders `false`, `true` for headers of tracing, or further names and patterns
 * @param stateful `new` adds lineage to the state of new queries, `never` to that of none
 * @param mistakes settings with a value that they can't have, in place of which is the default
 */
record RowLineageConf(
    boolean enabled,
    String sink,
    String delivery,
    String jobVersion,
    String stamp,
    String runsTopic,
    String inheritHeaders,
    String stateful,
    List<String> disabledQueries,
    List<String> mistakes) {
  static final String PREFIX = "spark.headwater.lineage.";

  static RowLineageConf of(RuntimeConfig conf) {
    List<String> mistakes = new ArrayList<>();
    return new RowLineageConf(
        Boolean.parseBoolean(conf.get(PREFIX + "enabled", "true").trim()),
        oneOf(conf, mistakes, "sink", "headwater", "headers"),
        oneOf(conf, mistakes, "delivery", "idempotent", "transactional", "exactly-once"),
        conf.get(PREFIX + "jobVersion", "v1.0.0"),
        oneOf(conf, mistakes, "stamp", "compact", "full"),
        conf.get(PREFIX + "runsTopic", "headwater-runs").trim(),
        conf.get(PREFIX + "inheritHeaders", "false").trim(),
        oneOf(conf, mistakes, "stateful", "new", "never"),
        Arrays.stream(conf.get(PREFIX + "disabledQueries", "").split(","))
            .map(String::trim)
            .filter(name -> !name.isEmpty())
            .toList(),
        mistakes);
  }

  /** Settings that have no effect with the others, on a query that writes to Kafka. */
  List<String> withoutEffect() {
    return delivery.equals("transactional") && sink.equals("headers")
        ? List.of(PREFIX + "delivery=transactional has no effect with " + PREFIX + "sink=headers")
        : List.of();
  }

  boolean isExactlyOnce() {
    return delivery.equals("exactly-once");
  }

  boolean readsHeaders() {
    return !inheritHeaders.equalsIgnoreCase("false");
  }

  boolean enabledFor(String query) {
    return enabled && !disabledQueries.contains(query);
  }

  /** The setting by which a query has no row lineage. */
  String reasonForOff() {
    return PREFIX + (enabled ? "disabledQueries has the query" : "enabled is false");
  }

  private static String oneOf(
      RuntimeConfig conf, List<String> mistakes, String name, String... allowed) {
    String value = conf.get(PREFIX + name, allowed[0]).trim().toLowerCase(Locale.ROOT);
    if (!List.of(allowed).contains(value)) {
      mistakes.add(
          PREFIX + name + " is '" + value + "', expected one of " + String.join(", ", allowed));
      return allowed[0];
    }
    return value;
  }
}
