package dev.headwater.rowlineage;

import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;

/** One start of a query; known to the writes in its foreachBatch by the hidden column. */
record QueryRun(String name, String runId) {
  private static final String NAME = "headwater.query";
  private static final String RUN = "headwater.run";

  /** The run in the metadata of the hidden column, or null. */
  static QueryRun of(Metadata metadata) {
    return metadata.contains(RUN)
        ? new QueryRun(metadata.getString(NAME), metadata.getString(RUN))
        : null;
  }

  Metadata metadata() {
    return new MetadataBuilder().putString(NAME, name).putString(RUN, runId).build();
  }
}
