package dev.headwater.rowlineage;

import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.util.CharVarcharUtils;
import org.apache.spark.sql.connector.catalog.CatalogV2Util;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.streaming.Sink;
import org.apache.spark.sql.types.StructType;
import scala.Product;

/** The columns of tables that a job writes to. */
final class Tables {
  private Tables() {}

  /** The columns of the table of a streaming sink; null if it is not a table. */
  static StructType schemaOf(Table sink, SparkSession session) {
    if (isDelta(sink)) {
      // Spark's older interface for sinks: the folder is a parameter of the class.
      for (int i = 0; i < ((Product) sink).productArity(); i++) {
        if (((Product) sink).productElement(i) instanceof Path folder) {
          return ofDelta(folder.toString(), session);
        }
      }
      return null;
    }
    if (sink instanceof Sink) {
      // Another one of the older interface, such as for files.
      return null;
    }
    return CharVarcharUtils.replaceCharVarcharWithStringInSchema(
        CatalogV2Util.v2ColumnsToStructType(sink.columns()));
  }

  /** Whether an object is of Delta's connector. */
  static boolean isDelta(Object object) {
    return object.getClass().getName().startsWith("org.apache.spark.sql.delta.");
  }

  /** The columns of a Delta table; null if it does not exist. */
  static StructType ofDelta(String folder, SparkSession session) {
    try {
      return session.read().format("delta").load(folder).schema();
    } catch (Exception missing) {
      return null;
    }
  }
}
