package dev.headwater.lineage;

import java.util.Optional;

import io.openlineage.spark.agent.lifecycle.ExecutionContext;
import org.apache.spark.scheduler.ActiveJob;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;

/**
 * Makes the listener analyze a query only once, at its end. {@link Executions} reports what is
 * known at its start.
 */
final class EndOnlyExecutionContext extends NoopExecutionContext {
  private final ExecutionContext context;

  EndOnlyExecutionContext(ExecutionContext context) {
    this.context = context;
  }

  @Override
  public void end(SparkListenerSQLExecutionEnd end) {
    context.end(end);
  }

  // The listener needs it for the counts of rows and bytes.
  @Override
  public void setActiveJob(ActiveJob job) {
    context.setActiveJob(job);
  }

  @Override
  public Optional<Integer> getActiveJobId() {
    return context.getActiveJobId();
  }

  @Override
  public void setActiveJobId(Integer job) {
    context.setActiveJobId(job);
  }

  @Override
  public void evictJob(int job) {
    context.evictJob(job);
  }

  @Override
  public void clearRetainedState() {
    context.clearRetainedState();
  }

  @Override
  public int getRetainedJobCount() {
    return context.getRetainedJobCount();
  }

  @Override
  public int getRetainedStageCount() {
    return context.getRetainedStageCount();
  }
}
