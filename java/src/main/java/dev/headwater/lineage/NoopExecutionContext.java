package dev.headwater.lineage;

import io.openlineage.spark.agent.lifecycle.ExecutionContext;
import org.apache.spark.scheduler.ActiveJob;
import org.apache.spark.scheduler.SparkListenerApplicationEnd;
import org.apache.spark.scheduler.SparkListenerApplicationStart;
import org.apache.spark.scheduler.SparkListenerJobEnd;
import org.apache.spark.scheduler.SparkListenerJobStart;
import org.apache.spark.scheduler.SparkListenerStageCompleted;
import org.apache.spark.scheduler.SparkListenerStageSubmitted;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart;

/** Emits nothing for the application itself: Headwater reports its run. */
class NoopExecutionContext implements ExecutionContext {
  @Override
  public void setActiveJob(ActiveJob job) {}

  @Override
  public void start(SparkListenerApplicationStart start) {}

  @Override
  public void start(SparkListenerJobStart start) {}

  @Override
  public void start(SparkListenerSQLExecutionStart start) {}

  @Override
  public void start(SparkListenerStageSubmitted start) {}

  @Override
  public void end(SparkListenerApplicationEnd end) {}

  @Override
  public void end(SparkListenerJobEnd end) {}

  @Override
  public void end(SparkListenerStageCompleted end) {}

  @Override
  public void end(SparkListenerSQLExecutionEnd end) {}
}
