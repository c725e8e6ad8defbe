package dev.headwater.rowlineage;

import java.lang.reflect.Field;
import java.util.ArrayDeque;
import java.util.Collections;
import java.util.Deque;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import org.apache.spark.Dependency;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.LogicalRDD;

/**
 * The micro-batches that foreachBatch has received with lineage.
 *
 * <p>A frame that the job makes of one by `checkpoint`, `localCheckpoint` or its RDD is an RDD
 * without a plan: the lineage of its rows is lost, but they do have parents.
 */
final class ReceivedRows {
  private static final String CONNECT = "org.apache.spark.sql.connect.";
  private static final Map<RDD<?>, QueryRun> BATCHES =
      Collections.synchronizedMap(new WeakHashMap<>());
  // Each query has its own session.
  private static final Map<Object, QueryRun> SESSIONS =
      Collections.synchronizedMap(new WeakHashMap<>());

  // With Spark Connect, foreachBatch runs in the session of the client.
  private static final Map<Object, Client> CLIENTS =
      Collections.synchronizedMap(new WeakHashMap<>());

  private ReceivedRows() {}

  /**
   * @param firstRdd all RDDs that the query creates have larger ids
   */
  private record Client(QueryRun query, int firstRdd) {}

  /**
   * @param step by which the lineage was lost
   */
  record Origin(QueryRun query, String step) {}

  static void add(LogicalRDD batch, QueryRun query, SparkSession session) {
    BATCHES.put(batch.rdd(), query);
    SESSIONS.put(session, query);
  }

  /** For a query with foreachBatch that starts. */
  static void addClient(Table sink, SparkSession session, QueryRun query) {
    if (isOfConnect(sink)) {
      JavaSparkContext context = JavaSparkContext.fromSparkContext(session.sparkContext());
      CLIENTS.put(session, new Client(query, context.emptyRDD().id()));
    }
  }

  /** Whether the function that gets the micro-batches is one of Spark Connect. */
  private static boolean isOfConnect(Table sink) {
    for (Field field : sink.getClass().getDeclaredFields()) {
      try {
        field.setAccessible(true);
        Object value = field.get(sink);
        if (value != null && value.getClass().getName().startsWith(CONNECT)) {
          return true;
        }
      } catch (ReflectiveOperationException | RuntimeException hidden) {
        continue;
      }
    }
    return false;
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
        QueryRun query = queryOf(rows, rdd.id());
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

  private static QueryRun queryOf(LogicalRDD rows, int rdd) {
    for (Object each : Catalyst.java(rows.otherCopyArgs())) {
      QueryRun query = each instanceof SparkSession ? SESSIONS.get(each) : null;
      Client client = each instanceof SparkSession ? CLIENTS.get(each) : null;
      if (query != null) {
        return query;
      }
      if (client != null && rdd > client.firstRdd) {
        return client.query;
      }
    }
    return null;
  }
}
