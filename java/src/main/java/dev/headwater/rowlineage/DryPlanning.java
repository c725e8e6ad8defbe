package dev.headwater.rowlineage;

import dev.headwater.compat.SparkSql;
import dev.headwater.compat.StreamExecutions;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.PythonFuncExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.streaming.OutputMode;
import scala.runtime.AbstractPartialFunction;

/**
 * Plans a query without running it: what Spark can't plan must show before the query starts, not in
 * its first micro-batch.
 *
 * <p>Tables are replaced by empty rows, so that nothing is read. They are not an empty relation,
 * with which the optimizer would remove the steps that are to be planned.
 */
final class DryPlanning {
  private final SparkSession session;
  private final RDD<InternalRow> noRows;

  DryPlanning(SparkSession session) {
    this.session = session;
    this.noRows =
        JavaSparkContext.fromSparkContext(session.sparkContext()).<InternalRow>emptyRDD().rdd();
  }

  /**
   * Whether a plan has steps that Spark plans by separate rules, which may not fit together:
   * aggregates and functions in Python. A write in foreachBatch, which is repeated for every
   * micro-batch, is checked only then.
   */
  static boolean mayFail(LogicalPlan query) {
    return query.exists(node -> node instanceof Aggregate || hasPython(node));
  }

  private static boolean hasPython(LogicalPlan node) {
    return Catalyst.<Expression>java(node.expressions()).stream()
        .anyMatch(each -> each.exists(part -> part instanceof PythonFuncExpression));
  }

  void ofStream(LogicalPlan query, OutputMode mode) {
    StreamExecutions.of(session, withoutTables(query), mode).sparkPlan();
  }

  void ofBatch(LogicalPlan query) {
    LogicalPlan optimized =
        SparkSql.sessionState(session).optimizer().execute(withoutTables(query));
    SparkSql.sessionState(session).planner().plan(optimized).next();
  }

  private LogicalPlan withoutTables(LogicalPlan query) {
    return query.transformUpWithSubqueries(
        new AbstractPartialFunction<>() {
          @Override
          public boolean isDefinedAt(LogicalPlan node) {
            // Spark plans the source of a stream without opening it.
            return Catalyst.children(node).isEmpty()
                && !node.isStreaming()
                && !(node instanceof LogicalRDD);
          }

          @Override
          public LogicalPlan apply(LogicalPlan node) {
            return SparkSql.rows(Catalyst.seq(Catalyst.java(node.output())), noRows, session);
          }
        });
  }
}
