package dev.headwater.rowlineage;

import dev.headwater.delivery.RunRecords;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;

/** One start of a query; known to the writes in its foreachBatch by the hidden column. */
record QueryRun(String name, String runId) {
  private static final String NAME = "headwater.query";
  private static final String RUN = "headwater.run";
  // One for each start of a query, and for each write of a batch job.
  private static final int MAX_RECORDED = 10_000;
  private static final Set<String> RECORDED = new HashSet<>();

  /** The run in the metadata of the hidden column, or null. */
  static QueryRun of(Metadata metadata) {
    return metadata.contains(RUN)
        ? new QueryRun(metadata.getString(NAME), metadata.getString(RUN))
        : null;
  }

  /**
   * Writes which job this run belongs to, once: records with a compact stamp have only the run.
   *
   * @param options that configure a client of the cluster, with the prefix `kafka.`
   */
  void record(RowLineageConf conf, Map<String, String> options) {
    boolean isNew;
    synchronized (RECORDED) {
      if (RECORDED.size() == MAX_RECORDED) {
        RECORDED.clear();
      }
      isNew = RECORDED.add(runId);
    }
    if (isNew) {
      RunRecords.write(
          options, conf.runsTopic(), runId, name, conf.jobVersion(), System.currentTimeMillis());
    }
  }

  Metadata metadata() {
    return new MetadataBuilder().putString(NAME, name).putString(RUN, runId).build();
  }
}
