package dev.headwater.quality;

import java.io.Serializable;
import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.ConditionalExpression;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.TryEval;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.classic.ExpressionUtils;
import org.apache.spark.sql.types.DataType;
import scala.collection.Iterable;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Null instead of an error, with the expression of Spark's try_ functions.
 *
 * <p>Spark evaluates common subexpressions of several expressions first, and so outside of the
 * attempt. It does not do that for conditional expressions, so this claims to be one.
 */
public final class Attempt extends Expression implements ConditionalExpression, Serializable {
  private static final long serialVersionUID = 1L;

  private final Expression attempt;

  public Attempt(Expression attempt) {
    this.attempt = attempt;
  }

  public static Column of(Column column) {
    Expression attempt = new TryEval(ExpressionUtils.expression(column));
    return ExpressionUtils.column(new Attempt(attempt));
  }

  @Override
  public Seq<Expression> children() {
    return seq(List.of(attempt));
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return new Attempt(
        CollectionConverters.asJava((Iterable<Expression>) children).iterator().next());
  }

  @Override
  public Seq<Expression> alwaysEvaluatedInputs() {
    return seq(List.of());
  }

  @Override
  public ConditionalExpression withNewAlwaysEvaluatedInputs(Seq<Expression> inputs) {
    return this;
  }

  @Override
  public Seq<Seq<Expression>> branchGroups() {
    return seq(List.of());
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

  private static <T> Seq<T> seq(List<T> elements) {
    return scala.collection.immutable.List.from(CollectionConverters.asScala(elements));
  }
}
