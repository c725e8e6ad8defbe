package dev.headwater.lineage;

import java.net.URISyntaxException;
import java.util.LinkedHashMap;
import java.util.Map;

import io.openlineage.client.OpenLineage;
import io.openlineage.client.OpenLineageClientUtils;
import io.openlineage.spark.agent.EventEmitter;
import io.openlineage.spark.api.SparkOpenLineageConfig;

/** Replaces the listener's emitter: adds events to the queue instead of sending them. */
final class QueueingEventEmitter extends EventEmitter {
  private final Executions executions;

  QueueingEventEmitter(SparkOpenLineageConfig config, String application, Executions executions)
      throws URISyntaxException {
    super(config, application);
    this.executions = executions;
  }

  @Override
  public void emit(OpenLineage.RunEvent event) {
    Map<String, Object> entry = new LinkedHashMap<>();
    // One thread calls both listeners, one after the other, for the same execution.
    entry.put("execution", executions.current());
    entry.put("event", event);
    entry.put("nested", executions.isNested());
    entry.put("written", executions.written());
    try {
      LineageEventQueue.put(OpenLineageClientUtils.toJson(entry));
    } catch (RuntimeException | LinkageError error) {
      // Lineage never fails a job, also with incompatible jars.
    }
  }
}
