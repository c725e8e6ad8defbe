package dev.headwater.rowlineage;

import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.Dependency;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.LogicalRDD;

/**
 * The micro-batches that foreachBatch has received with lineage.
 *
 * <p>A frame that the job makes of one by `checkpoint`, `localCheckpoint` or its RDD is an RDD
 * without a plan: the lineage of its rows is lost, but they do have parents.
 */
final class ReceivedRows {
  private static final Map<RDD<?>, QueryRun> BATCHES =
      Collections.synchronizedMap(new WeakHashMap<>());
  // Each query has its own session.
  private static final Map<Object, QueryRun> SESSIONS =
      Collections.synchronizedMap(new WeakHashMap<>());

  private ReceivedRows() {}

  /**
   * @param step by which the lineage was lost
   */
  record Origin(QueryRun query, String step) {}

  static void add(LogicalRDD batch, QueryRun query, SparkSession session) {
    BATCHES.put(batch.rdd(), query);
    SESSIONS.put(session, query);
  }

  /** Where the rows of a leaf without lineage may come from; null if not from a micro-batch. */
  static Origin of(LogicalPlan leaf) {
    if (!(leaf instanceof LogicalRDD rows) || BATCHES.isEmpty()) {
      return null;
    }
    Deque<RDD<?>> next = new ArrayDeque<>();
    Set<Integer> seen = new HashSet<>();
    next.add(rows.rdd());
    while (!next.isEmpty()) {
      RDD<?> rdd = next.remove();
      if (BATCHES.containsKey(rdd)) {
        return new Origin(BATCHES.get(rdd), "RDD");
      }
      if (rdd.isCheckpointed()) {
        // Spark forgets what it was computed from. A frame that was created outside of
        // foreachBatch has another session.
        QueryRun query = queryOf(rows);
        return query == null ? null : new Origin(query, "checkpoint");
      }
      for (Dependency<?> each : Catalyst.<Dependency<?>>java(rdd.dependencies().toSeq())) {
        if (seen.add(each.rdd().id())) {
          next.add(each.rdd());
        }
      }
    }
    return null;
  }

  private static QueryRun queryOf(LogicalRDD rows) {
    return Catalyst.java(rows.otherCopyArgs()).stream()
        .filter(each -> each instanceof SparkSession && SESSIONS.containsKey(each))
        .map(SESSIONS::get)
        .findFirst()
        .orElse(null);
  }
}
