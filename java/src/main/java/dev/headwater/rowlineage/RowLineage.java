package dev.headwater.rowlineage;

import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.immutable.Seq;

/** The entrances to row lineage: rules for a session, and a function for one DataFrame. */
public final class RowLineage {
  private RowLineage() {}

  /** Adds the rules to every session that is created with the extensions. */
  public static void inject(SparkSessionExtensions extensions) {
    extensions.injectResolutionRule(session -> new HiddenColumn());
    extensions.injectPostHocResolutionRule(session -> new WriteRule((SparkSession) session));
  }

  /**
   * The rows with a column `lineage`, and a column `ordinal` where one row has several outputs;
   * called from Python.
   */
  public static Dataset<Row> withRowLineage(Dataset<Row> rows) {
    SparkSession session = rows.sparkSession();
    LogicalPlan plan = rows.queryExecution().analyzed();
    PlanRewriter rewriter = new PlanRewriter(each -> false, true);
    PlanRewriter.Rows rewritten = rewriter.rewrite(plan);
    if (!rewritten.haveLineage()) {
      throw new IllegalArgumentException("no Kafka source: the rows have no lineage");
    }
    Seq<Attribute> columns =
        Catalyst.added(
            plan.output(), Catalyst.named(LineageStruct.forSink(rewritten.lineage()), "lineage"));
    if (LineageStruct.isNumbered(rewritten.lineage())) {
      columns =
          Catalyst.added(
              columns, Catalyst.named(LineageStruct.ordinal(rewritten.lineage()), "ordinal"));
    }
    return Dataset.ofRows(
        session, new Project(Catalyst.seq(Catalyst.java(columns)), rewritten.plan()));
  }
}
