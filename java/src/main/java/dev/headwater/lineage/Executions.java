package dev.headwater.lineage;

import dev.headwater.compat.CollectionConverters;
import io.openlineage.client.OpenLineageClientUtils;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.regex.Pattern;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
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

/** Enqueues the tables that each write reads and writes; the listener does not know all of them. */
final class Executions {
  /** Spark's description of a micro-batch; until 4.0 in HTML. */
  private static final Pattern MICRO_BATCH =
      Pattern.compile("id = [0-9a-f-]{36}(<br/>|\\s)runId = [0-9a-f-]{36}(<br/>|\\s)batch = ");

  /** Commands that write no rows; all other commands are analyzed. */
  private static final Pattern NO_WRITE =
      Pattern.compile(
          "(Add|Alter|Analyze|Cache|Clear|Comment|Describe|Drop|Explain|Refresh|Rename|Repair|Set|Show"
              + "|Uncache|Unset|Use).*|Create(Function|Namespace|Table|View).*Command|CreateNamespace"
              + "|CreateTable|CreateView.*");

  private final Set<Long> streaming = newSet();

  /** Executions whose tables are all known from the plan. */
  private final Set<Long> known = newSet();

  /** Executions that are part of another one. */
  private final Set<Long> nested = newSet();

  private final WrittenRows written = new WrittenRows();
  private final Map<Integer, Long> executionOfJob = new ConcurrentHashMap<>();

  /** Stages of running jobs without a query, such as `rdd.saveAsTextFile`. */
  private final Map<Integer, Set<Object>> stagesWithoutQuery = new ConcurrentHashMap<>();

  private volatile Long current;

  /** Not `newKeySet`, whose class differs between versions of Java, and with it this class file. */
  private static Set<Long> newSet() {
    return Collections.newSetFromMap(new ConcurrentHashMap<>());
  }

  /** The execution of Spark's latest event. */
  Long current() {
    return current;
  }

  /** Whether it is part of another one, which counts the same rows again. */
  boolean isNested() {
    return current != null && nested.contains(current);
  }

  /** Rows and bytes that it wrote to files; null if none. */
  Map<String, Long> written() {
    return written.of(current);
  }

  /** Whether the listener need not analyze an ended execution. */
  boolean isSkipped(SparkListenerSQLExecutionEnd end) {
    return !LineageEventQueue.isOpen()
        || streaming.contains(end.executionId())
        || known.contains(end.executionId())
        || !mayWrite(end.qe());
  }

  /** The listener's analysis is slow, and most queries only read. */
  private static boolean mayWrite(QueryExecution query) {
    try {
      return query == null
          || (query.analyzed() instanceof Command command
              && !NO_WRITE.matcher(command.getClass().getSimpleName()).matches());
    } catch (Exception | LinkageError error) {
      // Such as an error in the user's query, which Spark throws without declaring it.
      return false;
    }
  }

  boolean hasNoQuery(int job) {
    return stagesWithoutQuery.containsKey(job);
  }

  boolean isStageWithoutQuery(int stage) {
    return !stagesWithoutQuery.isEmpty()
        && stagesWithoutQuery.values().stream().anyMatch(stages -> stages.contains(stage));
  }

  void jobStarted(SparkListenerJobStart start) {
    String execution = start.properties().getProperty("spark.sql.execution.id");
    current = execution == null ? null : Long.valueOf(execution);
    if (current != null) {
      executionOfJob.put(start.jobId(), current);
    } else if (LineageEventQueue.isOpen()) {
      stagesWithoutQuery.put(
          start.jobId(), new HashSet<>(CollectionConverters.asJava(start.stageIds())));
    }
    if (current != null && start.properties().getProperty("sql.streaming.queryId") != null) {
      streaming.add(current);
    }
  }

  void jobEnded(SparkListenerJobEnd end) {
    // Null for a job without a query: its end must not be taken for that of a concurrent query.
    current = executionOfJob.remove(end.jobId());
  }

  void forgetJob(int job) {
    stagesWithoutQuery.remove(job);
  }

  void stageSubmitted(SparkListenerStageSubmitted submitted) {
    if (LineageEventQueue.isOpen()) {
      written.addStage(submitted.stageInfo().stageId(), submitted.properties());
    }
  }

  void taskEnded(SparkListenerTaskEnd end) {
    if (LineageEventQueue.isOpen()) {
      written.addTask(end);
    }
  }

  /** Reports the end of a session that the user's program stops. */
  void applicationEnded(SparkListenerApplicationEnd end) {
    current = null;
    enqueueState("APPLICATION_END", end.time());
  }

  void otherEvent(SparkListenerEvent event) {
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
        enqueue("START", start.time(), SQLExecution.getQueryExecution(current), Option.empty());
      }
    } else if (event instanceof SparkListenerSQLExecutionEnd end) {
      current = end.executionId();
      if (!streaming.contains(current)) {
        enqueue("END", end.time(), end.qe(), end.executionFailure());
      }
    }
  }

  void forget(Long execution) {
    streaming.remove(execution);
    known.remove(execution);
    written.forget(execution);
    nested.remove(execution);
  }

  private void enqueue(String state, long at, QueryExecution query, Option<Throwable> failure) {
    if (query == null || !LineageEventQueue.isOpen() || !mayWrite(query)) {
      return;
    }
    Map<String, Object> entry = new LinkedHashMap<>();
    entry.put("execution", current);
    entry.put("state", state);
    entry.put("at", at);
    try {
      PlanTables tables = PlanTables.of(query.analyzed(), state.equals("END"));
      if (tables.isEmpty() && failure.isEmpty()) {
        enqueueState(state, at);
        return;
      }
      // Also at the end: the plan of a short query may be gone when its start event arrives.
      if (!isNested() && PlanTables.isAllOf(query.analyzed())) {
        known.add(current);
      }
      entry.put("alone", known.contains(current));
      entry.put("nested", isNested());
      entry.put("written", written());
      entry.put("inputs", tables.read());
      entry.put("outputs", tables.written());
      if (failure.isDefined()) {
        entry.put("failure", failure.get().toString());
      }
      LineageEventQueue.put(OpenLineageClientUtils.toJson(entry));
    } catch (Exception | LinkageError error) {
      // Lineage never fails a job. The plan may be invalid, or a second OpenLineage jar on the
      // class path incompatible. The listener, which is called next, may know more.
      known.remove(current);
      enqueueState(state, at);
    }
  }

  /** An entry without tables. */
  private void enqueueState(String state, long at) {
    LineageEventQueue.put(
        String.format("{\"execution\":%d,\"state\":\"%s\",\"at\":%d}", current, state, at));
  }
}
