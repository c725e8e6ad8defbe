package headwater.lineage;

import java.net.URISyntaxException;
import java.util.LinkedHashMap;
import java.util.Map;

import io.openlineage.client.OpenLineage;
import io.openlineage.client.OpenLineageClientUtils;
import io.openlineage.spark.agent.EventEmitter;
import io.openlineage.spark.api.SparkOpenLineageConfig;

/** In place of the listener's own: it sends nothing. */
final class QueueingEventEmitter extends EventEmitter {
  private final Executions executions;

  QueueingEventEmitter(SparkOpenLineageConfig config, String application, Executions executions)
      throws URISyntaxException {
    super(config, application);
    this.executions = executions;
  }

  @Override
  public void emit(OpenLineage.RunEvent event) {
    Map<String, Object> told = new LinkedHashMap<>();
    // Both listeners are called by one thread, one after the other, for the same execution.
    told.put("execution", executions.current());
    told.put("event", event);
    told.put("nested", executions.isNested());
    told.put("written", executions.written());
    try {
      LineageEventQueue.put(OpenLineageClientUtils.toJson(told));
    } catch (RuntimeException | LinkageError error) {
      // Lineage never fails a job, whatever jars it has.
    }
  }
}
