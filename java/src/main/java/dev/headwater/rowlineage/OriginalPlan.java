package dev.headwater.rowlineage;

import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.trees.TreeNodeTag;

/**
 * The plan that a job has without row lineage: dataset and column lineage show its columns, not
 * those that were added for rows.
 */
public final class OriginalPlan {
  private static final TreeNodeTag<LogicalPlan> ORIGINAL = new TreeNodeTag<>("headwater.original");

  private OriginalPlan() {}

  /** Keeps the plan that `rewritten` replaces; returns `rewritten`. */
  static LogicalPlan keep(LogicalPlan original, LogicalPlan rewritten) {
    rewritten.setTagValue(ORIGINAL, original);
    return rewritten;
  }

  /** The plan as the job wrote it; the same plan if it was not rewritten. Called from Python. */
  public static LogicalPlan of(LogicalPlan plan) {
    return plan.getTagValue(ORIGINAL).isDefined() ? plan.getTagValue(ORIGINAL).get() : plan;
  }
}
