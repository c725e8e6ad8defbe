package dev.headwater.rowlineage;

import static dev.headwater.rowlineage.Catalyst.seq;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.V2WriteCommand;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.types.StructField;
import scala.collection.Seq;

/**
 * MERGE into a table with a column for lineage whose connector leaves the work to Spark, such as
 * Iceberg: a row that is inserted or updated gets the lineage of its source row. If it keeps values
 * of the former row, it may have further parents.
 *
 * <p>Spark replaces the statement while it resolves it, before any rule of an extension: a join of
 * the table and the source, and `MergeRows` with the columns of each clause. Copy-on-write and
 * merge-on-read differ only in the operation and in the columns that identify a row.
 */
final class RowLevelMerge {
  private final V2WriteCommand write;
  private final MergeRows merge;
  private final Set<String> columns = new HashSet<>();

  RowLevelMerge(V2WriteCommand write) {
    this.write = write;
    this.merge = (MergeRows) write.query();
    for (StructField each : table().schema().fields()) {
      columns.add(each.name());
    }
  }

  static boolean isMerge(LogicalPlan plan) {
    return plan instanceof V2WriteCommand write
        && write.query() instanceof MergeRows
        && ((LogicalPlan) write.table()).resolved();
  }

  /** The join of the table and the source. */
  LogicalPlan rows() {
    return merge.child();
  }

  /** The merge with lineage; null if the table has no column for it, or the job sets it. */
  LogicalPlan with(PlanRewriter.Rows rows, StoredLineage stored) {
    StructField field = StoredLineage.columnOf(table().schema());
    if (field == null) {
      return null;
    }
    Expression exact = stored.expression(rows.lineage(), field.dataType());
    if (exact == null) {
      return null;
    }
    Expression open =
        stored.expression(LineageStruct.withUnknown(rows.lineage()), field.dataType());
    Clauses clauses = new Clauses(indexOf(field.name()), exact, open);
    Object[] parameters = Catalyst.parameters(merge);
    for (int i = 0; i < parameters.length; i++) {
      if (parameters[i] == merge.matchedInstructions()) {
        parameters[i] = clauses.changed(merge.matchedInstructions(), clauses::updated);
      } else if (parameters[i] == merge.notMatchedInstructions()) {
        parameters[i] = clauses.changed(merge.notMatchedInstructions(), clauses::inserted);
      } else if (parameters[i] == merge.child()) {
        parameters[i] = rows.plan();
      }
    }
    if (!clauses.changed) {
      return null;
    }
    LogicalPlan query = merge.makeCopy(parameters);
    query.copyTagsFrom(merge);
    return (LogicalPlan) write.withNewQuery(OriginalPlan.keep(merge, query));
  }

  private LogicalPlan table() {
    return (LogicalPlan) write.table();
  }

  private int indexOf(String column) {
    List<String> names = names();
    int position = names.indexOf(column);
    if (position < 0 || position != names.lastIndexOf(column)) {
      throw new IllegalStateException("MERGE writes the columns " + names);
    }
    return position;
  }

  private List<String> names() {
    return Catalyst.<Attribute>java(merge.output()).stream().map(Attribute::name).toList();
  }

  private interface Change {
    Expression of(List<Expression> values);
  }

  private final class Clauses {
    private final int position;
    private final Expression exact;
    private final Expression open;
    private final List<String> names = names();
    private final List<Attribute> target = target();
    private boolean changed;

    Clauses(int position, Expression exact, Expression open) {
      this.position = position;
      this.exact = exact;
      this.open = open;
    }

    /** The instructions of a kind of clause, whose rows are the parameters that are lists. */
    Seq<?> changed(Seq<?> instructions, Change change) {
      List<Object> all = new ArrayList<>();
      for (Object each : Catalyst.<Object>java(instructions)) {
        Expression instruction = (Expression) each;
        Object[] parameters = Catalyst.parameters(instruction);
        for (int i = 0; i < parameters.length; i++) {
          if (parameters[i] instanceof Seq<?> row) {
            List<Expression> values = new ArrayList<>();
            Catalyst.<Object>java(row).forEach(value -> values.add((Expression) value));
            values.set(position, change.of(values));
            parameters[i] = seq(values);
          }
        }
        all.add(instruction.makeCopy(parameters));
      }
      return seq(all);
    }

    /** Null stands for a column that the clause does not name. */
    Expression inserted(List<Expression> values) {
      Expression value = values.get(position);
      return StoredLineage.isNull(value) ? use(exact) : value;
    }

    /** A column that the clause does not set has the value of the table. */
    Expression updated(List<Expression> values) {
      if (!isOfTarget(values.get(position), names.get(position)) || isCopy(values)) {
        return values.get(position);
      }
      boolean keepsValues = false;
      for (int i = 0; i < values.size(); i++) {
        keepsValues |= i != position && columns.contains(names.get(i)) && reads(values.get(i));
      }
      return use(keepsValues ? open : exact);
    }

    private Expression use(Expression lineage) {
      changed = true;
      return lineage;
    }

    /** Copy-on-write writes the rows that no clause changes, too. */
    private boolean isCopy(List<Expression> values) {
      for (int i = 0; i < values.size(); i++) {
        if (columns.contains(names.get(i)) && !isOfTarget(values.get(i), names.get(i))) {
          return false;
        }
      }
      return true;
    }

    private boolean isOfTarget(Expression value, String name) {
      return StoredLineage.bare(value) instanceof Attribute column
          && column.name().equals(name)
          && reads(column);
    }

    private boolean reads(Expression value) {
      return Catalyst.<Expression>java(value.collectLeaves()).stream()
          .anyMatch(
              leaf ->
                  leaf instanceof Attribute each
                      && target.stream().anyMatch(one -> one.exprId().equals(each.exprId())));
    }

    private List<Attribute> target() {
      for (LogicalPlan leaf : Catalyst.<LogicalPlan>java(merge.collectLeaves())) {
        if (leaf instanceof DataSourceV2Relation relation
            && relation.table() instanceof RowLevelOperationTable) {
          return Catalyst.java(leaf.output());
        }
      }
      // Only inserts: no row of the table is read.
      return List.of();
    }
  }
}
