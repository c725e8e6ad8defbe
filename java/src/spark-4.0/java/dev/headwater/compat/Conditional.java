package dev.headwater.compat;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.ConditionalExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import scala.collection.immutable.Seq;

/** A conditional expression of which no part is always evaluated. */
public abstract class Conditional extends ListExpression implements ConditionalExpression {
  @Override
  public final Seq<Expression> alwaysEvaluatedInputs() {
    return CollectionConverters.asScala(List.of());
  }

  @Override
  public final ConditionalExpression withNewAlwaysEvaluatedInputs(Seq<Expression> inputs) {
    return this;
  }

  @Override
  public final Seq<Seq<Expression>> branchGroups() {
    return CollectionConverters.asScala(List.of());
  }
}
