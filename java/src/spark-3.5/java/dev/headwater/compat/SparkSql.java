package dev.headwater.compat;

import org.apache.spark.rdd.RDD;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.physical.UnknownPartitioning;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.LogicalRDD;
import org.apache.spark.sql.internal.SessionState;
import org.apache.spark.sql.types.DataType;
import scala.Function1;
import scala.Option;
import scala.collection.immutable.List;

/** Internals of Spark SQL: sessions, DataFrames, columns and nodes of plans. */
public final class SparkSql {
  private SparkSql() {}

  public static Dataset<Row> ofRows(SparkSession session, LogicalPlan plan) {
    return Dataset.ofRows(session, plan);
  }

  public static SessionState sessionState(SparkSession session) {
    return session.sessionState();
  }

  public static boolean isCached(SparkSession session, LogicalPlan plan) {
    return session.sharedState().cacheManager().lookupCachedData(plan).isDefined();
  }

  public static Expression expression(Column column) {
    return column.expr();
  }

  public static Column column(Expression expression) {
    return new Column(expression);
  }

  public static Expression staticInvoke(
      Class<?> owner,
      DataType type,
      String method,
      List<Expression> values,
      boolean nullable,
      boolean deterministic) {
    return new StaticInvoke(
        owner,
        type,
        method,
        values,
        CollectionConverters.asScala(java.util.List.of()),
        false,
        nullable,
        deterministic);
  }

  public static Aggregate aggregate(
      List<Expression> keys, List<NamedExpression> results, LogicalPlan child) {
    return new Aggregate(keys, results, child);
  }

  /** A leaf that returns the rows of an RDD. */
  public static LogicalPlan rows(
      List<Attribute> columns, RDD<InternalRow> rows, SparkSession session) {
    return Constructors.create(
        LogicalRDD.class,
        columns,
        rows,
        new UnknownPartitioning(0),
        CollectionConverters.asScala(java.util.List.of()),
        false,
        session,
        Option.empty(),
        Option.empty());
  }

  /**
   * Adds a rule that sees a plan before its columns are resolved, if possible. Spark 3.5 has no
   * rules before those that resolve columns.
   */
  public static void injectEarly(
      SparkSessionExtensions extensions, Function1<SparkSession, Rule<LogicalPlan>> rule) {
    extensions.injectResolutionRule(rule);
  }
}
