package dev.headwater.rowlineage;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What became of the row lineage of each query of this driver: logged once per start, and kept for
 * the run's facet.
 *
 * @param kind `exact`, `ranges`, `unknown` or `off`
 * @param steps because of which it is not exact
 * @param reason why it is off, or why Spark's own Kafka sink is kept, else null
 * @param runId of the start, null if it is off from its start or because of an error
 * @param warnings about settings that are wrong or have no effect
 */
public record RowLineageStatus(
    String query,
    String kind,
    Set<String> steps,
    String reason,
    String runId,
    List<String> warnings) {
  private static final Logger LOG = LoggerFactory.getLogger("dev.headwater.rowlineage");
  private static final int MAX_QUERIES = 1000;
  private static final String OFF = "off";
  private static final Map<String, RowLineageStatus> OF_QUERIES = new Latest<>();
  // By run; guarded by the map of queries.
  private static final Map<String, BatchStatus> IN_BATCHES = new Latest<>();

  private static final class Latest<T> extends LinkedHashMap<String, T> {
    private static final long serialVersionUID = 1;

    @Override
    protected boolean removeEldestEntry(Map.Entry<String, T> eldest) {
      return size() > MAX_QUERIES;
    }
  }

  /**
   * @param reason why Spark's own Kafka sink is kept, or null
   */
  static RowLineageStatus on(
      String query, Coverage coverage, String reason, String runId, List<String> warnings) {
    return new RowLineageStatus(query, coverage.kind(), coverage.steps(), reason, runId, warnings);
  }

  static RowLineageStatus off(String query, String reason) {
    return new RowLineageStatus(query, OFF, Set.of(), reason, null, List.of());
  }

  /** A write in foreachBatch that has lineage: its rows may be known less exactly than before. */
  static void written(QueryRun query, Coverage coverage) {
    change(query, writes -> writes.add(coverage));
  }

  /** A write in foreachBatch that has no place for lineage. */
  static void leftAlone(QueryRun query, String sink) {
    change(query, writes -> writes.addWithout(sink));
  }

  /** Every micro-batch has the same writes: they are reported if they change the status. */
  private static void change(QueryRun query, Consumer<BatchStatus> change) {
    RowLineageStatus status;
    synchronized (OF_QUERIES) {
      RowLineageStatus known = OF_QUERIES.get(query.name());
      if (known == null || !query.runId().equals(known.runId)) {
        return;
      }
      BatchStatus writes = IN_BATCHES.computeIfAbsent(query.runId(), run -> new BatchStatus(known));
      change.accept(writes);
      status = writes.status();
      if (status.equals(known)) {
        return;
      }
      status.keep();
    }
    status.log();
  }

  /** Keeps the status of a query that starts. */
  void keep() {
    synchronized (OF_QUERIES) {
      OF_QUERIES.put(query, this);
    }
  }

  /** For a query to which row lineage does not apply: none of its rows come from Kafka. */
  static void forget(String query) {
    synchronized (OF_QUERIES) {
      OF_QUERIES.remove(query);
    }
  }

  boolean isOff() {
    return kind.equals(OFF);
  }

  /** Logs the status of a query that starts, and keeps it. */
  void report() {
    keep();
    log();
  }

  /** The same unless the query is off already. */
  void reportOnce() {
    synchronized (OF_QUERIES) {
      RowLineageStatus known = OF_QUERIES.get(query);
      if (known != null && known.isOff() && known.runId == null) {
        return;
      }
      keep();
    }
    log();
  }

  private void log() {
    if (isOff()) {
      LOG.warn("row lineage of query '{}' is off: {}", query, reason);
      return;
    }
    String because = steps.isEmpty() ? "" : ", because of " + steps;
    if (reason == null) {
      LOG.info("row lineage of query '{}': {}{}", query, kind, because);
    } else {
      LOG.warn(
          "row lineage of query '{}': {}{}, with sink=headers: {}", query, kind, because, reason);
    }
    warnings.forEach(warning -> LOG.warn("row lineage of query '{}': {}", query, warning));
  }

  /** The status of the last start of a query in JSON, or null; called from Python. */
  public static String json(String query) throws JsonProcessingException {
    RowLineageStatus status;
    synchronized (OF_QUERIES) {
      status = OF_QUERIES.get(query);
    }
    return status == null ? null : new ObjectMapper().writeValueAsString(status);
  }
}
