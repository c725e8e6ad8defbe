package dev.headwater.rowlineage;

import dev.headwater.compat.SparkSql;
import java.util.List;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.sql.types.MetadataBuilder;
import scala.Option;

/** The entrances to row lineage: rules for a session, and a function for one DataFrame. */
public final class RowLineage {
  private static final String ORDINAL = "ordinal";
  // In the metadata of a column `ordinal` that is not the job's own.
  private static final String ADDED = "headwater.added";

  private RowLineage() {}

  /** Adds the rules to every session that is created with the extensions. */
  public static void inject(SparkSessionExtensions extensions) {
    extensions.injectResolutionRule(session -> new HiddenColumn(session));
    SparkSql.injectEarly(extensions, session -> new MergeStars(session));
    extensions.injectPostHocResolutionRule(session -> new WriteRule(session));
  }

  /**
   * Rows with their lineage.
   *
   * @param kind `exact`, `ranges` or `unknown`
   * @param steps because of which it is not exact
   * @param sharedBy the step after which several rows may have the same parents and ordinal; null
   *     if no two rows have, or the job numbers its rows itself
   */
  public record Result(Dataset<Row> rows, String kind, List<String> steps, String sharedBy) {}

  /**
   * The rows with a column `lineage`, and a column `ordinal` where one row has several outputs;
   * called from Python.
   */
  public static Result withRowLineage(Dataset<Row> rows) {
    LogicalPlan plan = rows.queryExecution().analyzed();
    PlanRewriter rewriter =
        new PlanRewriter(each -> SparkSql.isCached(rows.sparkSession(), each), true);
    PlanRewriter.Rows rewritten = rewriter.rewrite(plan);
    if (!rewritten.haveLineage()) {
      throw new IllegalArgumentException("no row comes from Kafka");
    }
    Attribute lineage = rewritten.lineage();
    Coverage coverage = rewriter.coverage();
    coverage.setSharedBy(Repeatability.sharedBy(plan));
    List<Object> columns = Catalyst.java(plan.output());
    columns.add(
        Catalyst.named(
            LineageStruct.withoutOrdinal(lineage), "lineage", Option.apply(coverage.metadata())));
    if (LineageStruct.isNumbered(lineage) && Catalyst.column(plan.output(), ORDINAL) == null) {
      Metadata added = new MetadataBuilder().putBoolean(ADDED, true).build();
      columns.add(Catalyst.named(LineageStruct.ordinal(lineage), ORDINAL, Option.apply(added)));
    }
    return result(
        SparkSql.ofRows(rows.sparkSession(), new Project(Catalyst.seq(columns), rewritten.plan())),
        coverage);
  }

  /** Rows with a column that {@link #withRowLineage} added, or the job; called from Python. */
  public static Result known(Dataset<Row> rows) {
    Coverage coverage = new Coverage();
    addCoverage(rows.queryExecution().analyzed(), coverage);
    return result(rows, coverage);
  }

  private static void addCoverage(LogicalPlan plan, Coverage coverage) {
    Catalyst.<Attribute>java(plan.output()).forEach(each -> coverage.add(each.metadata()));
    Catalyst.children(plan).forEach(child -> addCoverage(child, coverage));
  }

  private static Result result(Dataset<Row> rows, Coverage coverage) {
    boolean numbered = numbersItsRows(rows.queryExecution().analyzed());
    String sharedBy = numbered ? null : coverage.sharedBy();
    return new Result(rows, coverage.kind(), List.copyOf(coverage.steps()), sharedBy);
  }

  private static boolean numbersItsRows(LogicalPlan plan) {
    Attribute ordinal = Catalyst.column(plan.output(), ORDINAL);
    return ordinal != null && !ordinal.metadata().contains(ADDED);
  }
}
