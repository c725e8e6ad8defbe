package dev.headwater.rowlineage;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * What became of the row lineage of each query of this driver: logged once per start, and kept for
 * the run's facet.
 *
 * @param kind `exact`, `ranges`, `unknown` or `off`
 * @param steps because of which it is not exact
 * @param reason why it is off, else null
 */
public record RowLineageStatus(
    String query, String kind, Set<String> steps, String reason, String runId) {
  private static final Logger LOG = LoggerFactory.getLogger("dev.headwater.rowlineage");
  private static final int MAX_QUERIES = 1000;
  private static final Map<String, RowLineageStatus> OF_QUERIES =
      new LinkedHashMap<>() {
        private static final long serialVersionUID = 1;

        @Override
        protected boolean removeEldestEntry(Map.Entry<String, RowLineageStatus> eldest) {
          return size() > MAX_QUERIES;
        }
      };

  static RowLineageStatus on(String query, Coverage coverage, String runId) {
    return new RowLineageStatus(query, coverage.kind(), coverage.steps(), null, runId);
  }

  static RowLineageStatus off(String query, String reason) {
    return new RowLineageStatus(query, "off", Set.of(), reason, null);
  }

  /**
   * Reports a write in foreachBatch whose rows are known less exactly than those it received.
   *
   * @return the status of the query since
   */
  static RowLineageStatus add(QueryRun query, Coverage coverage) {
    RowLineageStatus known;
    synchronized (OF_QUERIES) {
      known = OF_QUERIES.get(query.name());
    }
    if (known == null) {
      return on(query.name(), coverage, query.runId());
    }
    if (known.reason != null || known.steps.containsAll(coverage.steps())) {
      return known;
    }
    Set<String> steps = new LinkedHashSet<>(known.steps);
    steps.addAll(coverage.steps());
    String kind = known.kind.equals("unknown") ? known.kind : coverage.kind();
    RowLineageStatus changed = new RowLineageStatus(query.name(), kind, steps, null, known.runId);
    changed.report();
    RecordedRuns.update(changed);
    return changed;
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

  /** Logs the status of a query that starts, and keeps it. */
  void report() {
    keep();
    if (reason != null) {
      LOG.warn("row lineage of query '{}' is off: {}", query, reason);
    } else if (steps.isEmpty()) {
      LOG.info("row lineage of query '{}': {}", query, kind);
    } else {
      LOG.info("row lineage of query '{}': {}, because of {}", query, kind, steps);
    }
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
