package dev.headwater.rowlineage;

import static dev.headwater.rowlineage.Catalyst.java;
import static dev.headwater.rowlineage.Catalyst.seq;

import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;
import org.apache.spark.sql.execution.LogicalRDD;
import scala.runtime.AbstractPartialFunction;

/**
 * The rows of a micro-batch that foreachBatch receives have a column with their lineage. The job
 * sees the columns that it has without it; a write inside foreachBatch finds it below.
 */
final class HiddenColumn extends Rule<LogicalPlan> {
  private static final TreeNodeTag<Boolean> DONE = new TreeNodeTag<>("headwater.hidden");

  private final SparkSession session;

  HiddenColumn(SparkSession session) {
    this.session = session;
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return plan.resolveOperatorsUp(
        new AbstractPartialFunction<>() {
          @Override
          public boolean isDefinedAt(LogicalPlan node) {
            return node instanceof LogicalRDD
                && Catalyst.column(node.output(), LineageStruct.COLUMN) != null
                && node.getTagValue(DONE).isEmpty();
          }

          @Override
          public LogicalPlan apply(LogicalPlan node) {
            node.setTagValue(DONE, true);
            QueryRun query =
                QueryRun.of(Catalyst.column(node.output(), LineageStruct.COLUMN).metadata());
            if (query != null) {
              ReceivedRows.add((LogicalRDD) node, query, session);
            }
            List<Attribute> shown = java(node.output());
            shown.removeIf(each -> each.name().equals(LineageStruct.COLUMN));
            return new Project(seq(shown), node);
          }
        });
  }
}
