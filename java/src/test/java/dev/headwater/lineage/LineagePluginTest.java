package dev.headwater.lineage;

import static org.junit.jupiter.api.Assertions.assertEquals;

import com.codahale.metrics.MetricRegistry;
import java.util.Map;
import org.apache.spark.SparkConf;
import org.apache.spark.api.plugin.DriverPlugin;
import org.apache.spark.api.plugin.PluginContext;
import org.apache.spark.resource.ResourceInformation;
import org.junit.jupiter.api.Test;

class LineagePluginTest {
  private static final String LISTENERS = "spark.extraListeners";
  private static final String OPENLINEAGE = "io.openlineage.spark.agent.OpenLineageSparkListener";
  private static final String OWN = "dev.headwater.lineage.LineageListener";

  private final SparkConf conf = new SparkConf(false);
  private final DriverPlugin plugin = new LineagePlugin().driverPlugin();

  @Test
  void sparkCreatesTheOwnListenerAndTheConfigurationStaysTheUsers() {
    conf.set(LISTENERS, "a.First," + OPENLINEAGE + ", b.Last");
    plugin.init(null, context());
    assertEquals("a.First," + OWN + ",b.Last", conf.get(LISTENERS));
    plugin.registerMetrics("app", context());
    assertEquals("a.First," + OPENLINEAGE + ", b.Last", conf.get(LISTENERS));
  }

  @Test
  void otherListenersAreNotChanged() {
    conf.set(LISTENERS, "a.First, b.Last");
    plugin.init(null, context());
    assertEquals("a.First, b.Last", conf.get(LISTENERS));
    plugin.registerMetrics("app", context());
    assertEquals("a.First, b.Last", conf.get(LISTENERS));
  }

  @Test
  void noListenerIsAddedWhereNoneIsConfigured() {
    plugin.init(null, context());
    plugin.registerMetrics("app", context());
    assertEquals(0, conf.getAll().length);
  }

  private PluginContext context() {
    return new PluginContext() {
      @Override
      public MetricRegistry metricRegistry() {
        return new MetricRegistry();
      }

      @Override
      public SparkConf conf() {
        return conf;
      }

      @Override
      public String executorID() {
        return "driver";
      }

      @Override
      public String hostname() {
        return "localhost";
      }

      @Override
      public Map<String, ResourceInformation> resources() {
        return Map.of();
      }

      @Override
      public void send(Object message) {
        throw new UnsupportedOperationException();
      }

      @Override
      public Object ask(Object message) {
        throw new UnsupportedOperationException();
      }
    };
  }
}
