package dev.headwater.rowlineage;

import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;

/**
 * Subqueries in the expressions of a node, such as in the list of a SELECT. They are not children
 * of the node, so their rows have no column for lineage.
 */
final class Subqueries {
  // Nodes whose expressions decide which rows there are, and in which order.
  private static final Set<String> DECIDING =
      Set.of(
          "Filter",
          "GlobalLimit",
          "Join",
          "LocalLimit",
          "Offset",
          "RebalancePartitions",
          "RepartitionByExpression",
          "Sort",
          "Tail");

  private Subqueries() {}

  /** Whether rows of the node have values of a subquery that reads Kafka. */
  static boolean readKafka(LogicalPlan node) {
    return !DECIDING.contains(node.getClass().getSimpleName())
        && Catalyst.<Expression>java(node.expressions()).stream()
            .anyMatch(each -> each.exists(Subqueries::readsKafka));
  }

  private static boolean readsKafka(Expression expression) {
    return expression instanceof SubqueryExpression subquery
        && KafkaRelations.readsKafka(subquery.plan());
  }
}
