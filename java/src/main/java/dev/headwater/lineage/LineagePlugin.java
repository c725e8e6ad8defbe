package dev.headwater.lineage;

import java.util.Map;

import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;

/** Loaded by `spark.plugins`: Spark initializes plugins before it creates listeners. */
public final class LineagePlugin implements SparkPlugin {
  @Override
  public DriverPlugin driverPlugin() {
    return new DriverPlugin() {
      @Override
      public Map<String, String> init(SparkContext context, PluginContext plugin) {
        LineageEventQueue.prepare(context);
        return Map.of();
      }

      @Override
      public void shutdown() {
        LineageEventQueue.end();
      }
    };
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return null;
  }
}
