package dev.headwater.compat;

import java.util.UUID;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata;
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution;
import org.apache.spark.sql.execution.streaming.runtime.WatermarkPropagator;
import org.apache.spark.sql.streaming.OutputMode;
import scala.Option;

/** How Spark runs a micro-batch of a query. */
public final class StreamExecutions {
  private StreamExecutions() {}

  /** Of the first batch, without a checkpoint. */
  public static QueryExecution of(SparkSession session, LogicalPlan query, OutputMode mode) {
    return Constructors.create(
        IncrementalExecution.class,
        session,
        query,
        mode,
        "none",
        new UUID(0, 0),
        new UUID(0, 0),
        0L,
        Option.empty(),
        OffsetSeqMetadata.apply(0, 0, OffsetSeqMetadata.apply$default$3()),
        WatermarkPropagator.noop());
  }
}
