package dev.headwater.delivery;

import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.catalog.TableProvider;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.connector.read.streaming.ReportsSinkMetrics;
import org.apache.spark.sql.connector.write.BatchWrite;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.internal.connector.SupportsStreamingUpdateAsAppend;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * The Spark data source: {@code writeStream.format("dev.headwater.delivery.LineageSink")}, or
 * {@code write} for batch DataFrames.
 *
 * <p>Rows have the columns topic, key, value, lineage, ordinal, error, partition and headers. The
 * lineage headers of each record are built here. Uses Spark's public data source API, and the
 * marker by which Spark's own sinks accept the output mode update.
 */
public final class LineageSink implements TableProvider {
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType();
  }

  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new Topics(null);
  }

  /** The sink of one start of a query with exactly-once delivery. */
  public static SupportsWrite table(ExactlyOnce exactlyOnce) {
    return new Topics(exactlyOnce);
  }

  /** What its write builders implement. */
  public static Class<? extends WriteBuilder> builderType() {
    return AnyOutputMode.class;
  }

  /**
   * As Spark's own Kafka sink: in mode update, changed rows are appended; in mode complete, all
   * rows, since a topic can't be truncated.
   */
  private interface AnyOutputMode extends SupportsTruncate, SupportsStreamingUpdateAsAppend {}

  private static final class Topics implements SupportsWrite, ReportsSinkMetrics {
    // Of the last committed batch; Spark reads it for the progress event of that batch.
    private volatile WrittenOffsets written = new WrittenOffsets();
    private final ExactlyOnce exactlyOnce;

    Topics(ExactlyOnce exactlyOnce) {
      this.exactlyOnce = exactlyOnce;
    }

    @Override
    public Map<String, String> metrics() {
      return written.metrics();
    }

    @Override
    public String name() {
      return "kafka topics";
    }

    @Override
    public StructType schema() {
      return new StructType();
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of(
          TableCapability.BATCH_WRITE,
          TableCapability.STREAMING_WRITE,
          TableCapability.ACCEPT_ANY_SCHEMA);
    }

    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      SinkOptions options = SinkOptions.of(info);
      return new AnyOutputMode() {
        @Override
        public WriteBuilder truncate() {
          return this;
        }

        @Override
        public Write build() {
          return new Write() {
            @Override
            public BatchWrite toBatch() {
              return new SingleBatchWrite(options);
            }

            @Override
            public StreamingWrite toStreaming() {
              return new MicroBatchWrite(options, exactlyOnce, batch -> written = batch);
            }
          };
        }
      };
    }
  }
}
