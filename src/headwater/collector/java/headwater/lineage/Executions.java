package headwater.lineage;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;

import io.openlineage.client.OpenLineageClientUtils;
import org.apache.spark.scheduler.SparkListener;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
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
  /** Those whose tables are all known here. */
  private final Set<Long> known = ConcurrentHashMap.newKeySet();

  /** Those that are part of another. */
  private final Set<Long> nested = ConcurrentHashMap.newKeySet();

  private final WrittenRows written = new WrittenRows();
  private final Map<Integer, Long> executionOfJob = new ConcurrentHashMap<>();
  private volatile Long current;
  private Long ended;

  /** The execution that Spark has told of last. */
  Long current() {
    return current;
  }

  /** Whether that one is part of another, which tells the same rows once more. */
  boolean isNested() {
    return current != null && nested.contains(current);
  }

  /** What that one has written to files; null if that is nothing. */
  Map<String, Long> written() {
    return written.of(current);
  }

  boolean isToBeSpared(long execution) {
    return !LineageEventQueue.isOpen()
        || streaming.contains(execution)
        || known.contains(execution)
        || !mayWrite(SQLExecution.getQueryExecution(execution));
  }

  boolean isToBeSpared(SparkListenerSQLExecutionEnd end) {
    return !LineageEventQueue.isOpen()
        || streaming.contains(end.executionId())
        || known.contains(end.executionId())
        || !mayWrite(end.qe());
  }

  /** Looking at a query takes the listener a while; most queries only ask. */
  private static boolean mayWrite(QueryExecution query) {
    try {
      return query == null
          || (query.analyzed() instanceof Command command
              && !NO_WRITE.matcher(command.getClass().getSimpleName()).matches());
    } catch (Exception | LinkageError error) {
      // Such as a mistake in the user's query, which Spark throws without declaring it.
      return false;
    }
  }

  @Override
  public void onJobStart(SparkListenerJobStart start) {
    String execution = start.properties().getProperty("spark.sql.execution.id");
    current = execution == null ? null : Long.valueOf(execution);
    if (current != null) {
      executionOfJob.put(start.jobId(), current);
    }
    if (current != null && start.properties().getProperty("sql.streaming.queryId") != null) {
      streaming.add(current);
    }
  }

  @Override
  public void onJobEnd(SparkListenerJobEnd end) {
    // None of a job that is no query: its end must not be taken for that of a query beside it.
    current = executionOfJob.remove(end.jobId());
  }

  @Override
  public void onStageSubmitted(SparkListenerStageSubmitted submitted) {
    if (LineageEventQueue.isOpen()) {
      written.addStage(submitted.stageInfo().stageId(), submitted.properties());
    }
  }

  @Override
  public void onTaskEnd(SparkListenerTaskEnd end) {
    if (LineageEventQueue.isOpen()) {
      written.addTask(end);
    }
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    if (ended != null) {
      streaming.remove(ended);
      known.remove(ended);
      written.forget(ended);
      nested.remove(ended);
      ended = null;
    }
    if (event instanceof SparkListenerSQLExecutionStart start) {
      current = start.executionId();
      Object root = start.rootExecutionId().isDefined() ? start.rootExecutionId().get() : current;
      if (!current.equals(root)) {
        nested.add(current);
      }
      boolean inBatch = streaming.contains(root);
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
      // The listener asks after this one whether it is to look at it.
      ended = current;
    }
  }

  private void tell(String state, long at, QueryExecution query, Option<Throwable> failure) {
    if (query == null || !LineageEventQueue.isOpen() || !mayWrite(query)) {
      return;
    }
    Map<String, Object> told = new LinkedHashMap<>();
    told.put("execution", current);
    told.put("state", state);
    told.put("at", at);
    try {
      PlanTables tables = PlanTables.of(query.analyzed(), state.equals("END"));
      if (tables.isEmpty() && failure.isEmpty()) {
        return;
      }
      // Also at the end: of a quick query Spark has no plan any more when its start is told.
      if (!isNested() && PlanTables.isAllOf(query.analyzed())) {
        known.add(current);
      }
      told.put("alone", known.contains(current));
      told.put("nested", isNested());
      told.put("written", written());
      told.put("inputs", tables.read());
      told.put("outputs", tables.written());
      if (failure.isDefined()) {
        told.put("failure", failure.get().toString());
      }
      LineageEventQueue.put(OpenLineageClientUtils.toJson(told));
    } catch (Exception | LinkageError error) {
      // Lineage never fails a job. A query that can't be read has no tables to tell of; with a
      // second OpenLineage jar on the class path classes may not fit together. The listener, which
      // is asked next, may know more.
      known.remove(current);
    }
  }
}
