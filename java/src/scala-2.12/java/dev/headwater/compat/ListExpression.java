package dev.headwater.compat;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import scala.collection.IndexedSeq;

/** An expression whose children are a list. */
public abstract class ListExpression extends Expression {
  protected abstract Expression withChildren(List<Expression> children);

  @Override
  public final Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return withChildren(CollectionConverters.asJava(children));
  }
}
