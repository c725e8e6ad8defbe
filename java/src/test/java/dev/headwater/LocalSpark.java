package dev.headwater;

import dev.headwater.compat.SparkSql;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.CommandExecutionMode;

/** A Spark session with an Iceberg catalog `lake`, shared by all tests. */
public final class LocalSpark {
  private static SparkSession session;
  private static Path folder;

  private LocalSpark() {}

  /** The session. */
  public static synchronized SparkSession session() {
    if (session == null) {
      try {
        folder = Files.createTempDirectory("headwater-java-test");
      } catch (IOException error) {
        throw new IllegalStateException(error);
      }
      session =
          SparkSession.builder()
              .master("local[1]")
              .appName("java-test")
              .config("spark.ui.enabled", "false")
              .config("spark.driver.host", "127.0.0.1")
              .config("spark.driver.bindAddress", "127.0.0.1")
              .config("spark.sql.shuffle.partitions", "1")
              .config("spark.sql.warehouse.dir", folder.resolve("warehouse").toString())
              .config(
                  "spark.sql.extensions",
                  "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions,"
                      + "dev.headwater.RowLineageExtension")
              .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
              .config("spark.sql.catalog.lake.type", "hadoop")
              .config("spark.sql.catalog.lake.warehouse", folder.resolve("lake").toString())
              .getOrCreate();
    }
    return session;
  }

  /** Runs a statement. */
  public static void run(String sql) {
    session().sql(sql).collect();
  }

  /** The analyzed plan of a statement, which is not run. */
  public static LogicalPlan analyzed(String sql) {
    LogicalPlan parsed;
    try {
      parsed = SparkSql.sessionState(session()).sqlParser().parsePlan(sql);
    } catch (Exception error) {
      throw new IllegalArgumentException(sql, error);
    }
    return SparkSql.sessionState(session())
        .executePlan(parsed, CommandExecutionMode.SKIP())
        .analyzed();
  }

  /** The analyzed plan of a query without rows that are equal in a column. */
  public static LogicalPlan deduplicated(String sql, String column) {
    return session().sql(sql).dropDuplicates(column).queryExecution().analyzed();
  }

  /** A folder with a Parquet file that has the columns of a query. */
  public static String parquet(String name, String query) {
    session();
    String path = folder.resolve(name).toString();
    session().sql(query).write().mode("overwrite").parquet(path);
    return path;
  }
}
