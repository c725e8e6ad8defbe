package dev.headwater.quality;

import dev.headwater.compat.CollectionConverters;
import dev.headwater.compat.Conditional;
import dev.headwater.compat.SparkSql;
import java.io.Serializable;
import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.TryEval;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;

/**
 * Null instead of an error, with the expression of Spark's try_ functions.
 *
 * <p>Spark evaluates common subexpressions of several expressions first, and so outside of the
 * attempt. It does not do that for conditional expressions, so this claims to be one.
 */
public final class Attempt extends Conditional implements Serializable {
  private static final long serialVersionUID = 1L;

  private final Expression attempt;

  public Attempt(Expression attempt) {
    this.attempt = attempt;
  }

  public static Column of(Column column) {
    Expression attempt = new TryEval(SparkSql.expression(column));
    return SparkSql.column(new Attempt(attempt));
  }

  @Override
  public scala.collection.immutable.List<Expression> children() {
    return CollectionConverters.asScala(List.of(attempt));
  }

  @Override
  protected Expression withChildren(List<Expression> children) {
    return new Attempt(children.get(0));
  }

  @Override
  public boolean foldable() {
    return attempt.foldable();
  }

  @Override
  public boolean nullable() {
    return true;
  }

  @Override
  public DataType dataType() {
    return attempt.dataType();
  }

  @Override
  public Object eval(InternalRow row) {
    return attempt.eval(row);
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    return attempt.genCode(context);
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int n) {
    return attempt;
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof Attempt;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Attempt that && attempt.equals(that.attempt);
  }

  @Override
  public int hashCode() {
    return Objects.hash(Attempt.class, attempt);
  }
}
