package dev.headwater.lineage;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import dev.headwater.rowlineage.MicroBatchRows;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkContext;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;

/**
 * What the foreachBatch of one streaming query writes to. Each output is reported once, and again
 * when its columns change: micro-batches repeat the same writes.
 */
public final class MicroBatchWrites extends SparkListener {
  /** The queue of Spark's streaming listeners: events arrive before the end of the query. */
  private static final String QUEUE = "streams";

  /** A foreachBatch that writes to new places in every batch must not fill the driver. */
  private static final int MAX_OUTPUTS = 1000;

  /**
   * An output.
   *
   * @param target in JSON: `topic` and `servers`, or `name`, `provider` and `location`; `merged`
   * @param rows the plan of its rows down to the query's sources; null if it is not known
   */
  public record Write(String target, LogicalPlan rows) {}

  private final SparkContext context;
  private final String runId;
  private final LogicalPlan stream;
  private final Set<Long> executions = new HashSet<>();
  private final Set<String> seen = new HashSet<>();
  private List<Write> found = new ArrayList<>();

  private MicroBatchWrites(SparkContext context, String runId, LogicalPlan stream) {
    this.context = context;
    this.runId = runId;
    this.stream = stream;
  }

  /** Starts to listen; called from Python. */
  public static MicroBatchWrites of(SparkContext context, String runId, LogicalPlan stream) {
    MicroBatchWrites writes = new MicroBatchWrites(context, runId, stream);
    context.listenerBus().addToQueue(writes, QUEUE);
    return writes;
  }

  /** Ends listening. */
  public void close() {
    context.listenerBus().removeListener(this);
  }

  /** The outputs that were found since the last call. */
  public synchronized List<Write> take() {
    List<Write> taken = found;
    found = new ArrayList<>();
    return taken;
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (event instanceof SparkListenerSQLExecutionStart start) {
      Object root = start.rootExecutionId().isDefined() ? start.rootExecutionId().get() : null;
      // A foreachBatch may set another description; its executions are part of the batch's.
      if (start.description().contains("runId = " + runId) || executions.contains(root)) {
        executions.add(start.executionId());
      }
    } else if (event instanceof SparkListenerSQLExecutionEnd end
        && executions.remove(end.executionId())
        && end.executionFailure().isEmpty()) {
      add(end.qe());
    }
  }

  private void add(QueryExecution query) {
    try {
      if (query != null && query.analyzed() instanceof Command) {
        for (BatchOutput output : BatchOutput.of(query.analyzed())) {
          add(output);
        }
      }
    } catch (Exception | LinkageError error) {
      // A plan of an unknown form. Lineage never fails a job.
    }
  }

  private synchronized void add(BatchOutput output) throws JsonProcessingException {
    Map<String, Object> target = new LinkedHashMap<>(output.target());
    target.put("merged", output.merged());
    String json = new ObjectMapper().writeValueAsString(target);
    LogicalPlan rows = output.rows();
    String columns = rows == null ? "" : rows.schema().catalogString();
    if (seen.size() < MAX_OUTPUTS && seen.add(json + columns)) {
      found.add(new Write(json, rows == null ? null : MicroBatchRows.withSources(rows, stream)));
    }
  }
}
