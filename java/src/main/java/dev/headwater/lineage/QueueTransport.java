package dev.headwater.lineage;

import io.openlineage.client.OpenLineage;
import io.openlineage.client.OpenLineageClientUtils;
import io.openlineage.client.transports.Transport;
import io.openlineage.client.transports.TransportConfig;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.spark.SparkConf;

/** OpenLineage's transport `headwater`: adds events to the queue instead of sending them. */
public final class QueueTransport extends Transport {
  static final String TYPE = "headwater";

  private static final String TYPE_OPTION = "spark.openlineage.transport.type";

  /** Has no properties: those of the user's transport are for Python, which sends the events. */
  public static final class Config implements TransportConfig {}

  private static volatile Executions executions;

  /** A copy of the configuration, with this transport. */
  static SparkConf chosenIn(SparkConf conf) {
    return conf.clone().set(TYPE_OPTION, TYPE);
  }

  /** The executions that the next events belong to; Spark calls a listener on one thread. */
  static void emitFor(Executions current) {
    executions = current;
  }

  @Override
  public void emit(OpenLineage.RunEvent event) {
    Executions current = executions;
    Map<String, Object> entry = new LinkedHashMap<>();
    entry.put("execution", current.current());
    entry.put("event", event);
    entry.put("nested", current.isNested());
    entry.put("written", current.written());
    LineageEventQueue.put(OpenLineageClientUtils.toJson(entry));
  }

  @Override
  public void emit(OpenLineage.DatasetEvent event) {
    // The listener emits events of runs only.
  }

  @Override
  public void emit(OpenLineage.JobEvent event) {
    // The listener emits events of runs only.
  }
}
