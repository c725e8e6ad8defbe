package dev.headwater.join;

import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.api.java.UDF0;
import org.apache.spark.sql.functions;
import org.apache.spark.sql.types.DataTypes;

/** Functions for expressions that return properties of the current micro-batch. */
public final class BatchFunctions {
  private BatchFunctions() {}

  /**
   * Registers the functions as nondeterministic: otherwise the optimizer would evaluate them as
   * constants on the driver.
   */
  public static void register(
      SparkSession spark, String checkpoint, String watermarkName, String numberName) {
    register(spark, watermarkName, new LateWatermark(checkpoint));
    register(spark, numberName, new BatchNumber());
  }

  private static void register(SparkSession spark, String name, UDF0<Long> function) {
    spark.udf().register(name, functions.udf(function, DataTypes.LongType).asNondeterministic());
  }
}
