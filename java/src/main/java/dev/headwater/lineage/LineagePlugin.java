package dev.headwater.lineage;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.spark.SparkConf;
import org.apache.spark.SparkContext;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.ExecutorPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.api.plugin.SparkPlugin;
import org.slf4j.LoggerFactory;

/**
 * Loaded by `spark.plugins`. Where the user's configuration names OpenLineage's listener, Spark
 * creates {@link LineageListener} instead, which extends it.
 */
public final class LineagePlugin implements SparkPlugin {
  @Override
  public DriverPlugin driverPlugin() {
    return new Driver();
  }

  @Override
  public ExecutorPlugin executorPlugin() {
    return null;
  }

  private static final class Driver implements DriverPlugin {
    private static final String LISTENERS = "spark.extraListeners";
    private static final String OPENLINEAGE = "io.openlineage.spark.agent.OpenLineageSparkListener";

    // Not the class itself, which needs OpenLineage's.
    private static final String OWN = "dev.headwater.lineage.LineageListener";

    private String configured;

    /** Called before Spark creates the listeners. */
    @Override
    public Map<String, String> init(SparkContext context, PluginContext plugin) {
      SparkConf conf = plugin.conf();
      String listeners = conf.get(LISTENERS, "");
      List<String> names = Arrays.stream(listeners.split(",")).map(String::trim).toList();
      if (names.contains(OPENLINEAGE) && canListen(conf)) {
        configured = listeners;
        conf.set(
            LISTENERS,
            names.stream()
                .map(name -> name.equals(OPENLINEAGE) ? OWN : name)
                .collect(Collectors.joining(",")));
      }
      return Map.of();
    }

    /** Called after that: the configuration is the user's again. */
    @Override
    public void registerMetrics(String application, PluginContext plugin) {
      if (configured != null) {
        plugin.conf().set(LISTENERS, configured);
      }
    }

    /** Lineage never fails a job: another OpenLineage jar may be incompatible. */
    private static boolean canListen(SparkConf conf) {
      try {
        return new LineageListener(conf).getConf() != null;
      } catch (Exception | LinkageError error) {
        LoggerFactory.getLogger(LineagePlugin.class)
            .error("lineage of batch writes is disabled: {}", error.toString());
        return false;
      }
    }
  }
}
