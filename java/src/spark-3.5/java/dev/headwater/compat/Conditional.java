package dev.headwater.compat;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.ConditionalExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;

/** A conditional expression of which no part is always evaluated. */
public abstract class Conditional extends ListExpression implements ConditionalExpression {
  @Override
  public final scala.collection.immutable.List<Expression> alwaysEvaluatedInputs() {
    return CollectionConverters.asScala(List.of());
  }

  @Override
  @SuppressWarnings({"rawtypes", "unchecked"}) // the element type differs in 2.12 and 2.13
  public final scala.collection.immutable.List branchGroups() {
    return CollectionConverters.asScala(List.of());
  }
}
