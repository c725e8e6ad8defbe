package dev.headwater.delivery;

import org.apache.hadoop.conf.Configuration;
import org.apache.spark.SparkContext;

/**
 * The driver's part of a start with another delivery than exactly-once. Its records are not in the
 * log of exactly-once delivery, which is removed before they are written.
 */
public final class OtherDelivery {
  private final SparkContext spark;
  private final String checkpoint;
  private final Configuration configuration;
  private boolean removed;

  public OtherDelivery(SparkContext spark, String checkpoint, Configuration configuration) {
    this.spark = spark;
    this.checkpoint = checkpoint;
    this.configuration = configuration;
  }

  /** Whether an earlier start with exactly-once delivery has left a log. */
  public boolean findsLog() {
    return new OutputLog(checkpoint, configuration).exists();
  }

  /** Called on the driver before the tasks of each batch: until then the start may fail. */
  public void before() {
    if (!removed) {
      new OutputLog(checkpoint, configuration).remove();
      removed = true;
    }
    String batch = spark.getLocalProperty("streaming.sql.batchId");
    if (batch != null) {
      RunsHere.begin(checkpoint, new RunsHere.Begun(Long.parseLong(batch), false));
    }
  }
}
