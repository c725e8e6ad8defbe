package dev.headwater.delivery;

import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.kafka.common.KafkaException;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;

/**
 * The batches of a query that transactions have committed, compared with its checkpoint before the
 * first batch of a start.
 *
 * <p>In a copy of the checkpoint that is older than the output, Spark gives the next batch a number
 * that the output has. The tasks would find it and write nothing, and its records would be lost.
 */
public final class CommittedBatches {
  private static final String BATCH = "streaming.sql.batchId";

  private final SparkContext spark;
  private final String checkpoint;
  private final long started;
  private boolean compared;

  /** Reads the checkpoint of a query before Spark adds a batch to it. */
  public CommittedBatches(SparkContext spark, String checkpoint, Configuration configuration) {
    this.spark = spark;
    this.checkpoint = checkpoint;
    try {
      started = new OutputLog(checkpoint, configuration).progress().started();
    } catch (IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  /**
   * Called on the driver before the tasks of each batch.
   *
   * @throws KafkaException a batch is committed that the checkpoint has not started
   */
  public void compare(LogicalWriteInfo info) {
    if (compared) {
      return;
    }
    SinkOptions options = SinkOptions.of(info);
    String prefix = TransactionalDelivery.prefix(options.queryId());
    long newest =
        CommittedBatch.ofLanes(options, prefix).stream()
            .mapToLong(CommittedBatch::batch)
            .max()
            .orElse(-1);
    refuseOlder(checkpoint, knownBatch(spark.getLocalProperty(BATCH)), newest);
    compared = true;
  }

  /**
   * The newest batch before this start. A run of the same query that was active when the checkpoint
   * was read may have gone on: Spark stops it later.
   */
  private long knownBatch(String current) {
    return current == null ? started : Math.max(started, Long.parseLong(current) - 1);
  }

  static void refuseOlder(String checkpoint, long started, long newest) {
    if (newest > started) {
      throw new KafkaException(
          checkpoint
              + " is older than the output: its newest batch is "
              + started
              + ", but the output has batch "
              + newest
              + " of this query; use the newest checkpoint, because records under the batch ids"
              + " of written ones would be lost, or another checkpointLocation with"
              + " startingOffsets after the written records");
    }
  }
}
