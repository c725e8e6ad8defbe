package dev.headwater.lineage;

import io.openlineage.spark.agent.OpenLineageSparkListener;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LoggerContext;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.spark.SparkConf;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerApplicationStart;
import org.apache.spark.scheduler.SparkListenerEvent;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.scheduler.SparkListenerTaskEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.slf4j.LoggerFactory;

/**
 * OpenLineage's listener for writes that {@link Executions} does not know completely. It emits to
 * {@link QueueTransport}.
 *
 * <p>Its analysis is slow, so it is called only once for a write, at the end, and for jobs without
 * a query. It is not called for the application's start and end, for queries that write nothing,
 * and for micro-batches of streaming queries, which are reported elsewhere.
 */
public final class LineageListener extends OpenLineageSparkListener {
  private static final String OPENLINEAGE_LOGGER = "io.openlineage";

  private final Executions executions = new Executions();
  private final AtomicBoolean warned = new AtomicBoolean();

  /** Called by Spark, for `spark.extraListeners`. */
  public LineageListener(SparkConf conf) {
    super(QueueTransport.chosenIn(conf));
    quietListener();
  }

  /** It logs every node of a plan that it does not know; {@link PlanTables} adds them. */
  private static void quietListener() {
    try {
      LoggerContext context = (LoggerContext) LogManager.getContext(false);
      if (!context.getConfiguration().getLoggers().containsKey(OPENLINEAGE_LOGGER)) {
        Configurator.setLevel(OPENLINEAGE_LOGGER, Level.FATAL);
      }
    } catch (RuntimeException | LinkageError error) {
      // The user's logging has another implementation: it decides.
    }
  }

  @Override
  public void onApplicationStart(SparkListenerApplicationStart start) {
    // Headwater reports the application's run.
  }

  @Override
  public void onApplicationEnd(SparkListenerApplicationEnd end) {
    executions.applicationEnded(end);
    guarded(super::close);
  }

  @Override
  public void onJobStart(SparkListenerJobStart start) {
    executions.jobStarted(start);
    if (executions.hasNoQuery(start.jobId())) {
      guarded(() -> super.onJobStart(start));
    }
  }

  @Override
  public void onJobEnd(SparkListenerJobEnd end) {
    executions.jobEnded(end);
    if (executions.hasNoQuery(end.jobId())) {
      guarded(() -> super.onJobEnd(end));
      executions.forgetJob(end.jobId());
    }
  }

  @Override
  public void onStageSubmitted(SparkListenerStageSubmitted submitted) {
    executions.stageSubmitted(submitted);
  }

  @Override
  public void onTaskEnd(SparkListenerTaskEnd end) {
    executions.taskEnded(end);
    if (executions.isStageWithoutQuery(end.stageId())) {
      guarded(() -> super.onTaskEnd(end));
    }
  }

  @Override
  public void onOtherEvent(SparkListenerEvent event) {
    executions.otherEvent(event);
    if (event instanceof SparkListenerSQLExecutionEnd end) {
      if (!executions.isSkipped(end)) {
        guarded(() -> super.onOtherEvent(end));
      }
      executions.forget(end.executionId());
    }
  }

  /** Lineage never fails a job: Spark would stop the application for a linkage error. */
  private void guarded(Runnable callback) {
    QueueTransport.emitFor(executions);
    try {
      callback.run();
    } catch (Exception | LinkageError error) {
      if (warned.compareAndSet(false, true)) {
        LoggerFactory.getLogger(LineageListener.class)
            .warn("lineage of batch writes is incomplete: {}", error.toString());
      }
    }
  }
}
