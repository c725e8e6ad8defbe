package dev.headwater.rowlineage;

import static dev.headwater.rowlineage.Catalyst.seq;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.types.StructField;
import scala.collection.Seq;

/**
 * MERGE into a Delta table with a column for lineage: a row that is inserted or updated gets the
 * lineage of its source row. If it keeps values of the former row, it may have further parents.
 *
 * <p>The classes are Delta's, which are not there in every session: their constructor parameters
 * are read by position.
 */
final class DeltaMerge {
  private static final String MERGE = "org.apache.spark.sql.catalyst.plans.logical.DeltaMergeInto";
  private static final int TARGET = 0;
  private static final int SOURCE = 1;
  // Of a clause: its condition and its actions.
  private static final int ACTIONS = 1;
  // Of an action: the name of the column, in parts, and the value.
  private static final int COLUMN = 0;
  private static final int VALUE = 1;

  private final LogicalPlan merge;
  private final LogicalPlan target;
  private final LogicalPlan source;

  DeltaMerge(LogicalPlan merge) {
    this.merge = merge;
    this.target = (LogicalPlan) merge.productElement(TARGET);
    this.source = (LogicalPlan) merge.productElement(SOURCE);
  }

  static boolean isMerge(LogicalPlan plan) {
    return plan.getClass().getName().equals(MERGE) && plan.resolved();
  }

  LogicalPlan source() {
    return source;
  }

  /** The merge with lineage; null if the table has no column for it. */
  LogicalPlan with(PlanRewriter.Rows rows, StoredLineage stored) {
    StructField field = StoredLineage.columnOf(target.schema());
    if (field == null) {
      return null;
    }
    // Not the name of the hidden column: Delta stores the source as rows of a micro-batch are.
    Alias lineage = Catalyst.named(rows.lineage(), "__headwater_source_lineage");
    Attribute value = lineage.toAttribute();
    Expression exact = stored.expression(value, field.dataType());
    if (exact == null) {
      return null;
    }
    Expression open = stored.expression(LineageStruct.withUnknown(value), field.dataType());
    Object[] parameters = Catalyst.parameters(merge);
    for (int i = 0; i < parameters.length; i++) {
      if (parameters[i] instanceof Seq<?> clauses) {
        parameters[i] = changed(clauses, field.name(), exact, open);
      }
    }
    parameters[SOURCE] = new Project(Catalyst.added(source.output(), lineage), rows.plan());
    LogicalPlan copy = merge.makeCopy(parameters);
    copy.copyTagsFrom(merge);
    return copy;
  }

  private Seq<?> changed(Seq<?> clauses, String column, Expression exact, Expression open) {
    List<Object> all = new ArrayList<>();
    for (Object each : Catalyst.<Object>java(clauses)) {
      String kind = each.getClass().getSimpleName();
      boolean hasSource = !kind.contains("NotMatchedBySource");
      boolean sets = kind.contains("Update") || kind.contains("Insert");
      all.add(
          hasSource && sets && each instanceof Expression clause
              ? changed(clause, column, kind.contains("Insert"), exact, open)
              : each);
    }
    return seq(all);
  }

  /** The clause with one more action, unless the job sets the column. */
  private Expression changed(
      Expression clause, String column, boolean inserts, Expression exact, Expression open) {
    List<Object> actions = Catalyst.java((Seq<?>) clause.productElement(ACTIONS));
    Set<String> columns = new HashSet<>();
    boolean keepsValues = false;
    for (Object each : actions) {
      Expression action = (Expression) each;
      columns.add(columnOf(action));
      keepsValues |= readsTarget((Expression) action.productElement(VALUE));
    }
    if (actions.isEmpty() || columns.contains(column)) {
      return clause;
    }
    boolean complete = inserts || !keepsValues && setsAll(columns, column);
    Expression last = (Expression) actions.get(actions.size() - 1);
    Object[] parameters = Catalyst.parameters(last);
    parameters[COLUMN] = seq(List.of(column));
    parameters[VALUE] = complete ? exact : open;
    actions.add(last.makeCopy(parameters));
    Object[] ofClause = Catalyst.parameters(clause);
    ofClause[ACTIONS] = seq(actions);
    return clause.makeCopy(ofClause);
  }

  private boolean setsAll(Set<String> columns, String lineage) {
    return Catalyst.<Attribute>java(target.output()).stream()
        .map(Attribute::name)
        .allMatch(name -> name.equals(lineage) || columns.contains(name));
  }

  private boolean readsTarget(Expression value) {
    return Catalyst.<Expression>java(value.collectLeaves()).stream()
        .anyMatch(leaf -> leaf instanceof Attribute each && Catalyst.hasOutput(target, each));
  }

  private static String columnOf(Expression action) {
    List<Object> name = Catalyst.java((Seq<?>) action.productElement(COLUMN));
    return name.size() == 1 ? name.get(0).toString() : "";
  }
}
