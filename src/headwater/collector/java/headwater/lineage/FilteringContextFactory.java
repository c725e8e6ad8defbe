package headwater.lineage;

import java.util.Optional;

import io.micrometer.core.instrument.MeterRegistry;
import io.openlineage.spark.agent.EventEmitter;
import io.openlineage.spark.agent.lifecycle.ContextFactory;
import io.openlineage.spark.agent.lifecycle.ExecutionContext;
import io.openlineage.spark.api.SparkOpenLineageConfig;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd;

/**
 * Spares the listener what nobody asks for: all, while no run is open, queries that write nothing,
 * writes of which the plan says everything, the application's start and end, and the micro-batches
 * of streaming queries, which are told of otherwise.
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
    return executions.isToBeSpared(execution)
        ? Optional.empty()
        : super.createSparkSQLExecutionContext(execution).map(EndOnlyExecutionContext::new);
  }

  @Override
  public Optional<ExecutionContext> createSparkSQLExecutionContext(
      SparkListenerSQLExecutionEnd end) {
    return executions.isToBeSpared(end)
        ? Optional.empty()
        : super.createSparkSQLExecutionContext(end).map(EndOnlyExecutionContext::new);
  }
}
