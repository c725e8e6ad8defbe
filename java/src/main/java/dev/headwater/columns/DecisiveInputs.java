package dev.headwater.columns;

import static dev.headwater.compat.CollectionConverters.asJava;

import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.DeduplicateWithinWatermark;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LateralJoin;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.SetOperation;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import scala.collection.Seq;

/** Input fields in filters, joins and groupings: they determine which rows a plan returns. */
final class DecisiveInputs {
  private final Map<ColumnValue.Field, Set<Transformation>> inputs = new LinkedHashMap<>();

  void add(LogicalPlan plan, ExpressionValues values) {
    if (plan instanceof Filter filter) {
      add("FILTER", List.of(filter.condition()), values);
    } else if (plan instanceof Join || plan.getClass().getSimpleName().equals("AsOfJoin")) {
      add("JOIN", asJava(plan.expressions()), values);
    } else if (plan instanceof LateralJoin lateral && lateral.condition().isDefined()) {
      add("JOIN", List.of(lateral.condition().get()), values);
    } else if (plan instanceof SetOperation operation) {
      add("FILTER", asJava(operation.right().output()), values);
    } else if (plan instanceof Aggregate aggregate) {
      add("GROUP_BY", asJava(aggregate.groupingExpressions()), values);
    } else if (plan instanceof Deduplicate deduplicate) {
      add("GROUP_BY", asJava(deduplicate.keys()), values);
    } else if (plan instanceof DeduplicateWithinWatermark deduplicate) {
      add("GROUP_BY", asJava(deduplicate.keys()), values);
    } else if (plan instanceof Sort sort) {
      add("SORT", asJava(sort.order()), values);
    } else if (plan instanceof Window window) {
      add("WINDOW", asJava(window.partitionSpec()), values);
      add("WINDOW", asJava(window.orderSpec()), values);
    } else if (plan instanceof MergeRows merge) {
      add("CONDITIONAL", conditions(merge.matchedInstructions()), values);
      add("CONDITIONAL", conditions(merge.notMatchedInstructions()), values);
      add("CONDITIONAL", conditions(merge.notMatchedBySourceInstructions()), values);
    }
  }

  private static List<Expression> conditions(Seq<? extends MergeRows.Instruction> cases) {
    return asJava(cases).stream().map(MergeRows.Instruction::condition).toList();
  }

  private void add(
      String subtype, List<? extends Expression> expressions, ExpressionValues values) {
    add(subtype, expressions.stream().map(values::of).toList());
  }

  void add(String subtype, List<ColumnValue> values) {
    Set<Transformation> added = Set.of(Transformation.indirect(subtype));
    for (ColumnValue value : values) {
      value.allInputs().keySet().forEach(field -> ColumnValue.add(inputs, field, added));
    }
  }

  List<Object> asList() {
    return ColumnValue.asList(inputs);
  }
}
