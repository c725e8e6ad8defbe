package dev.headwater.lineage;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.spark.executor.OutputMetrics;
import org.apache.spark.scheduler.SparkListenerTaskEnd;

/**
 * Rows and bytes that the tasks of each execution wrote to files.
 *
 * <p>The listener knows them only for some commands, and for none of Delta's. A nested execution
 * also counts for the enclosing one.
 */
final class WrittenRows {
  private static final String EXECUTION = "spark.sql.execution.id";
  private static final String ROOT = "spark.sql.execution.root.id";

  /** Streaming queries are counted elsewhere. */
  private static final String STREAM = "sql.streaming.queryId";

  /** Tasks may end after their stage, when a speculative copy was faster. */
  private static final int MAX_STAGES = 10_000;

  private static final int MAX_EXECUTIONS = 1_000;

  private final Map<Integer, Set<Long>> executionsOfStage = bounded(MAX_STAGES);
  private final Map<Long, long[]> written = bounded(MAX_EXECUTIONS);

  void addStage(int stage, Properties properties) {
    if (properties == null
        || properties.getProperty(EXECUTION) == null
        || properties.getProperty(STREAM) != null) {
      return;
    }
    Long execution = Long.valueOf(properties.getProperty(EXECUTION));
    String root = properties.getProperty(ROOT);
    Long enclosing = root == null ? execution : Long.valueOf(root);
    executionsOfStage.put(
        stage, execution.equals(enclosing) ? Set.of(execution) : Set.of(execution, enclosing));
  }

  void addTask(SparkListenerTaskEnd end) {
    // A lost executor has no metrics.
    if (!end.taskInfo().successful() || end.taskMetrics() == null) {
      return;
    }
    OutputMetrics output = end.taskMetrics().outputMetrics();
    if (output.recordsWritten() == 0) {
      return;
    }
    for (Long execution : executionsOfStage.getOrDefault(end.stageId(), Set.of())) {
      long[] sums = written.computeIfAbsent(execution, unknown -> new long[2]);
      sums[0] += output.recordsWritten();
      sums[1] += output.bytesWritten();
    }
  }

  /** What an execution has written so far; null if nothing. */
  Map<String, Long> of(Long execution) {
    long[] sums = execution == null ? null : written.get(execution);
    return sums == null ? null : Map.of("rows", sums[0], "bytes", sums[1]);
  }

  void forget(Long execution) {
    written.remove(execution);
  }

  private static <K, V> Map<K, V> bounded(int limit) {
    return new LinkedHashMap<>() {
      @Override
      protected boolean removeEldestEntry(Map.Entry<K, V> eldest) {
        return size() > limit;
      }
    };
  }
}
