package dev.headwater.compat;

import org.apache.spark.sql.connector.catalog.Table;

/** The version of a table that a query reads. */
public final class TableVersion {
  private TableVersion() {}

  /** In the form of the table's connector; null if it has none. */
  public static String of(Table table) {
    return table.version();
  }
}
