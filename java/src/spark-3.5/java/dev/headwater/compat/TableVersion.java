package dev.headwater.compat;

import org.apache.spark.sql.connector.catalog.Table;

/** The version of a table that a query reads. */
public final class TableVersion {
  private static final String ICEBERG = "org.apache.iceberg.spark.source.SparkTable";

  private TableVersion() {}

  /**
   * In the form of the table's connector; null if it has none.
   *
   * <p>Tables have no version in this Spark, but those of Iceberg have its parts: the version is
   * composed as Iceberg does it for later ones.
   */
  public static String of(Table table) {
    if (!table.getClass().getName().equals(ICEBERG)) {
      return null;
    }
    try {
      Object branch = called(table, "branch");
      Object snapshot = called(table, "snapshotId");
      if (snapshot == null && branch != null) {
        Object iceberg = called(table, "table");
        Object last =
            iceberg.getClass().getMethod("snapshot", String.class).invoke(iceberg, branch);
        snapshot = last == null ? null : called(last, "snapshotId");
      } else if (snapshot == null) {
        snapshot = table.properties().get("current-snapshot-id");
      }
      return "branch_" + branch + "_snapshot_" + snapshot;
    } catch (ReflectiveOperationException otherVersion) {
      return null;
    }
  }

  private static Object called(Object object, String method) throws ReflectiveOperationException {
    return object.getClass().getMethod(method).invoke(object);
  }
}
