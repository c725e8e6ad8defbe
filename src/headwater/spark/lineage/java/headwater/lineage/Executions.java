package headwater.lineage;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;

import io.openlineage.client.OpenLineageClientUtils;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.sql.catalyst.plans.logical.Command;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.SQLExecution;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;
import scala.Option;

/** Tells of each write which tables it reads and writes, where the listener may not know. */
final class Executions extends SparkListener {
  /** How Spark describes a micro-batch; until 4.0 in HTML. */
  private static final Pattern MICRO_BATCH =
      Pattern.compile("id = [0-9a-f-]{36}(<br/>|\\s)runId = [0-9a-f-]{36}(<br/>|\\s)batch = ");

  /** Commands that write no rows; whatever else is a command is looked at. */
  private static final Pattern NO_WRITE =
      Pattern.compile(
          "(Add|Alter|Analyze|Cache|Clear|Comment|Describe|Drop|Explain|Refresh|Rename|Repair|Set|Show"
              + "|Uncache|Unset|Use).*|Create(Function|Namespace|Table|View).*Command|CreateNamespace"
              + "|CreateTable|CreateView.*");

  private final Set<Long> streaming = ConcurrentHashMap.newKeySet();
  private volatile Long current;
  private Long ended;

  /** The execution that Spark has told of last. */
  Long current() {
    return current;
  }

  boolean isToBeSpared(long execution) {
    return !Handover.isOpen()
        || streaming.contains(execution)
        || !mayWrite(SQLExecution.getQueryExecution(execution));
  }

  boolean isToBeSpared(SparkListenerSQLExecutionEnd end) {
    return !Handover.isOpen() || streaming.contains(end.executionId()) || !mayWrite(end.qe());
  }

  /** Looking at a query takes the listener a while; most queries only ask. */
  private static boolean mayWrite(QueryExecution query) {
    try {
      return query == null
          || (query.analyzed() instanceof Command command
              && !NO_WRITE.matcher(command.getClass().getSimpleName()).matches());
    } catch (RuntimeException | LinkageError error) {
      return false;
    }
  }

  @Override
  public void onJobStart(SparkListenerJobStart start) {
    String execution = start.properties().getProperty("spark.sql.execution.id");
    current = execution == null ? null : Long.valueOf(execution);
    if (current != null && start.properties().getProperty("sql.streaming.queryId") != null) {
      streaming.add(current);
    }
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (ended != null) {
      streaming.remove(ended);
      ended = null;
    }
    if (event instanceof SparkListenerSQLExecutionStart start) {
      current = start.executionId();
      boolean inBatch =
          start.rootExecutionId().isDefined()
              && streaming.contains((Long) start.rootExecutionId().get());
      if (inBatch || MICRO_BATCH.matcher(start.description()).find()) {
        streaming.add(current);
      } else {
        tell("START", start.time(), SQLExecution.getQueryExecution(current), Option.empty());
      }
    } else if (event instanceof SparkListenerSQLExecutionEnd end) {
      current = end.executionId();
      if (!streaming.contains(current)) {
        tell("END", end.time(), end.qe(), end.executionFailure());
      }
      // The listener asks after this one whether it belongs to a stream.
      ended = current;
    }
  }

  private void tell(String state, long at, QueryExecution query, Option<Throwable> failure) {
    if (query == null || !Handover.isOpen()) {
      return;
    }
    Map<String, Object> told = new LinkedHashMap<>();
    told.put("execution", current);
    told.put("state", state);
    told.put("at", at);
    try {
      PlanTables tables = PlanTables.of(query.analyzed(), state.equals("END"));
      if (tables.written().isEmpty()) {
        return;
      }
      told.put("inputs", tables.read());
      told.put("outputs", tables.written());
      if (failure.isDefined()) {
        told.put("failure", failure.get().toString());
      }
      Handover.put(OpenLineageClientUtils.toJson(told));
    } catch (RuntimeException | LinkageError error) {
      // Lineage never fails a job. A query that can't be read has no tables to tell of; with a
      // second OpenLineage jar on the class path classes may not fit together.
    }
  }
}
