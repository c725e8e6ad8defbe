package dev.headwater.rowlineage;

import dev.headwater.delivery.OtherDelivery;
import java.util.Set;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;

/**
 * Spark's Kafka sink of a query that formerly had exactly-once delivery: before its first batch, it
 * removes the log of that delivery.
 */
final class SinkWithoutLog implements SupportsWrite {
  private final SupportsWrite original;
  private final OtherDelivery delivery;

  SinkWithoutLog(SupportsWrite original, OtherDelivery delivery) {
    this.original = original;
    this.delivery = delivery;
  }

  @Override
  public String name() {
    return original.name();
  }

  @Override
  @SuppressWarnings("deprecation")
  public StructType schema() {
    return original.schema();
  }

  @Override
  public Set<TableCapability> capabilities() {
    return original.capabilities();
  }

  @Override
  public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
    WriteBuilder builder = original.newWriteBuilder(info);
    delivery.before();
    return builder;
  }
}
