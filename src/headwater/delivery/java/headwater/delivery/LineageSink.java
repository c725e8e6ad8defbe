package headwater.delivery;

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
import org.apache.spark.sql.connector.write.Write;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.connector.write.streaming.StreamingWrite;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Where Spark enters: {@code writeStream.format("headwater.delivery.LineageSink")}, or {@code write}
 * for rows that are all there.
 *
 * <p>The rows have the columns topic, key, value, lineage, ordinal and error; the headers are made
 * here, record by record, from what the rows say of their parents. Written with Spark's public
 * interface for data sources.
 */
public final class LineageSink implements TableProvider {
  @Override
  public StructType inferSchema(CaseInsensitiveStringMap options) {
    return new StructType();
  }

  @Override
  public Table getTable(
      StructType schema, Transform[] partitioning, Map<String, String> properties) {
    return new Topics();
  }

  private static final class Topics implements SupportsWrite, ReportsSinkMetrics {
    // Of the batch that was committed last; Spark asks for it when it tells of that batch.
    private volatile Written written = new Written();

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
      return new WriteBuilder() {
        @Override
        public Write build() {
          return new Write() {
            @Override
            public BatchWrite toBatch() {
              return new OneBatchWrite(options);
            }

            @Override
            public StreamingWrite toStreaming() {
              return new BatchesWrite(options, batch -> written = batch);
            }
          };
        }
      };
    }
  }
}
