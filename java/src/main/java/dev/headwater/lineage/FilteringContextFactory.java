package dev.headwater.lineage;

import java.util.Optional;

import io.micrometer.core.instrument.MeterRegistry;
import io.openlineage.spark.agent.EventEmitter;
import io.openlineage.spark.agent.lifecycle.ContextFactory;
import io.openlineage.spark.agent.lifecycle.ExecutionContext;
import io.openlineage.spark.api.SparkOpenLineageConfig;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;

/**
 * Skips the listener's analysis where it is not needed: while no run is open, for queries that
 * write nothing, for writes whose plan has everything, for the application's start and end, and for
 * micro-batches of streaming queries, which are reported elsewhere.
 */
final class FilteringContextFactory extends ContextFactory {
  private final Executions executions;

  FilteringContextFactory(
      EventEmitter emitter,
      MeterRegistry registry,
      SparkOpenLineageConfig config,
      Executions executions) {
    super(emitter, registry, config);
    this.executions = executions;
  }

  @Override
  public ExecutionContext createSparkApplicationExecutionContext(SparkContext context) {
    return new NoopExecutionContext();
  }

  @Override
  public Optional<ExecutionContext> createSparkSQLExecutionContext(long execution) {
    return executions.isSkipped(execution)
        ? Optional.empty()
        : super.createSparkSQLExecutionContext(execution).map(EndOnlyExecutionContext::new);
  }

  @Override
  public Optional<ExecutionContext> createSparkSQLExecutionContext(
      SparkListenerSQLExecutionEnd end) {
    return executions.isSkipped(end)
        ? Optional.empty()
        : super.createSparkSQLExecutionContext(end).map(EndOnlyExecutionContext::new);
  }
}
