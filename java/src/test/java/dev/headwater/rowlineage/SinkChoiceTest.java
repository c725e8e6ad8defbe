package dev.headwater.rowlineage;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import dev.headwater.LocalSpark;
import java.util.Map;
import java.util.Set;
import org.apache.spark.SparkConf;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.streaming.StreamingRelationV2;
import org.apache.spark.sql.connector.catalog.SupportsWrite;
import org.apache.spark.sql.connector.catalog.TableCapability;
import org.apache.spark.sql.connector.write.LogicalWriteInfo;
import org.apache.spark.sql.connector.write.SupportsDynamicOverwrite;
import org.apache.spark.sql.connector.write.SupportsTruncate;
import org.apache.spark.sql.connector.write.WriteBuilder;
import org.apache.spark.sql.types.StructType;
import org.junit.jupiter.api.Test;

/** Which sink writes the rows of a query to Kafka. */
class SinkChoiceTest {
  private static final SinkChoice REPLACED = new SinkChoice(true, null);
  private final SparkConf spark = new SparkConf(false);

  private static SupportsWrite kafka() {
    LogicalPlan source =
        LocalSpark.session()
            .readStream()
            .format("kafka")
            .option("kafka.bootstrap.servers", "localhost:1")
            .option("subscribe", "visits")
            .load()
            .queryExecution()
            .analyzed();
    return (SupportsWrite) ((StreamingRelationV2) source).table();
  }

  private static RowLineageConf conf() {
    return RowLineageConf.of(LocalSpark.session().conf());
  }

  private SinkChoice choice(SupportsWrite sink, Map<String, String> source) {
    return SinkChoice.of(conf(), sink, spark, source);
  }

  @Test
  void sparksSinkIsReplacedIfNothingIsMissing() {
    assertEquals(REPLACED, choice(kafka(), Map.of()));
  }

  @Test
  void sparksSinkIsKeptForDelegationTokens() {
    spark.set("spark.kafka.clusters.main.auth.bootstrap.servers", "localhost:1");
    SinkChoice kept = choice(kafka(), Map.of("kafka.security.protocol", "SASL_SSL"));
    assertFalse(kept.replaced());
    assertTrue(kept.reason().contains("delegation tokens (spark.kafka.clusters.*)"));
    assertEquals(REPLACED, choice(kafka(), Map.of("kafka.sasl.jaas.config", "of the job")));
  }

  private abstract static class Base implements SupportsDynamicOverwrite {}

  /** As Spark's sink in some later version. */
  private static final class Later implements SupportsWrite {
    @Override
    public WriteBuilder newWriteBuilder(LogicalWriteInfo info) {
      if (info.options().containsKey("topic")) {
        throw new IllegalStateException();
      }
      return new Both();
    }

    private static final class Both extends Base implements SupportsTruncate {
      @Override
      public WriteBuilder overwriteDynamicPartitions() {
        return this;
      }

      @Override
      public WriteBuilder truncate() {
        return this;
      }
    }

    @Override
    public String name() {
      return "later";
    }

    @Override
    public StructType schema() {
      return new StructType();
    }

    @Override
    public Set<TableCapability> capabilities() {
      return Set.of();
    }
  }

  @Test
  void sparksSinkIsKeptIfItOffersMoreThanHeadwaters() {
    SinkChoice kept = choice(new Later(), Map.of());
    assertFalse(kept.replaced());
    assertEquals("Headwater's sink lacks SupportsDynamicOverwrite", kept.reason());
  }
}
