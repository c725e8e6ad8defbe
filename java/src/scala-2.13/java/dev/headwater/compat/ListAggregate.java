package dev.headwater.compat;

import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.aggregate.TypedImperativeAggregate;
import scala.collection.immutable.IndexedSeq;

/** An aggregate function whose children are a list. */
public abstract class ListAggregate<T> extends TypedImperativeAggregate<T> {
  protected abstract Expression withChildren(List<Expression> children);

  @Override
  public final Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return withChildren(CollectionConverters.asJava(children));
  }
}
