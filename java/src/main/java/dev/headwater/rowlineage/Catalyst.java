package dev.headwater.rowlineage;

import dev.headwater.compat.CollectionConverters;
import dev.headwater.compat.CommonTables;
import dev.headwater.compat.Constructors;
import dev.headwater.compat.SparkSql;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeReference;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.EvalMode;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UpdateAction;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.Metadata;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.Product;
import scala.collection.Seq;

/**
 * Creates nodes and expressions of Spark. The signatures that differ between Spark's versions are
 * called here only.
 *
 * <p>Expressions are created by their constructors, not looked up by name: a temporary function of
 * the job could have the same name.
 */
final class Catalyst {
  private Catalyst() {}

  static <T> List<T> java(Seq<? extends T> seq) {
    return CollectionConverters.asJava(seq);
  }

  static <K, V> Map<K, V> java(scala.collection.Map<K, V> map) {
    return CollectionConverters.asJava(map);
  }

  @SuppressWarnings("unchecked")
  static <T> scala.collection.immutable.List<T> seq(List<?> list) {
    return (scala.collection.immutable.List<T>) CollectionConverters.asScala(list);
  }

  /** The list with one more element. */
  static <T> scala.collection.immutable.List<T> added(Seq<?> seq, Object last) {
    List<Object> all = java(seq);
    all.add(last);
    return seq(all);
  }

  static LogicalPlan inlineCommonTables(LogicalPlan plan) {
    return CommonTables.inlined(plan);
  }

  static Alias named(Expression expression, String name) {
    return named(expression, name, Option.empty());
  }

  static Alias named(Expression expression, String name, Option<Metadata> metadata) {
    return new Alias(expression, name, NamedExpression.newExprId(), noNames(), metadata, noNames());
  }

  /** An alias with the identity of an attribute, which it replaces. */
  static Alias inPlaceOf(Attribute attribute, Expression expression) {
    return new Alias(
        expression,
        attribute.name(),
        attribute.exprId(),
        attribute.qualifier(),
        Option.empty(),
        noNames());
  }

  private static scala.collection.immutable.List<String> noNames() {
    return seq(List.of());
  }

  static AttributeReference attribute(String name, DataType type) {
    return new AttributeReference(
        name, type, true, Metadata.empty(), NamedExpression.newExprId(), noNames());
  }

  static Expression text(String value) {
    return Literal.create(
        value == null ? null : UTF8String.fromString(value), DataTypes.StringType);
  }

  static Expression number(long value) {
    return Literal.create(value, DataTypes.LongType);
  }

  static Expression nothing(DataType type) {
    return Literal.create(null, type);
  }

  static Expression cast(Expression expression, DataType type) {
    return expression.dataType().sameType(type)
        ? expression
        : new Cast(expression, type, Option.empty(), EvalMode.LEGACY());
  }

  /** A call of a static method, in generated code, with null for null. */
  static Expression call(
      Class<?> owner, String method, DataType type, boolean deterministic, Expression... values) {
    boolean nullable = !type.equals(DataTypes.BooleanType) && !type.equals(DataTypes.LongType);
    return SparkSql.staticInvoke(
        owner, type, method, seq(Arrays.asList(values)), nullable, deterministic);
  }

  static Aggregate aggregate(List<?> keys, List<?> results, LogicalPlan child) {
    return SparkSql.aggregate(seq(keys), seq(results), child);
  }

  static UpdateAction update(Option<Expression> condition, List<?> assignments) {
    // Whether it was written with a star, which Spark 4.0 does not ask for.
    return Constructors.create(UpdateAction.class, condition, seq(assignments), true);
  }

  static List<LogicalPlan> children(LogicalPlan plan) {
    return java(plan.children());
  }

  /** A copy with other children; whatever else the node has is kept. */
  static LogicalPlan withChildren(LogicalPlan plan, List<LogicalPlan> children) {
    return plan.withNewChildren(seq(children));
  }

  static LogicalPlan withFirstChild(LogicalPlan plan, LogicalPlan child) {
    List<LogicalPlan> children = children(plan);
    children.set(0, child);
    return withChildren(plan, children);
  }

  /** The constructor parameters of a node or an expression. */
  static Object[] parameters(Product node) {
    return CollectionConverters.asJava(node.productIterator()).toArray();
  }

  /** A copy with another value of one constructor parameter, and another first child. */
  static LogicalPlan withParameter(LogicalPlan plan, int number, Object value, LogicalPlan child) {
    LogicalPlan moved = withFirstChild(plan, child);
    Object[] parameters = parameters(moved);
    parameters[number] = value;
    LogicalPlan copy = moved.makeCopy(parameters);
    copy.copyTagsFrom(plan);
    return copy;
  }

  /**
   * A copy with other values of some constructor parameters. Not with the method `copy`: Spark's
   * versions have different numbers of parameters.
   *
   * @param values each value that is replaced, with its replacement after it
   */
  static LogicalPlan replaced(LogicalPlan plan, Object... values) {
    Object[] parameters = parameters(plan);
    for (int i = 0; i < values.length; i += 2) {
      for (int at = 0; at < parameters.length; at++) {
        if (parameters[at] == values[i]) {
          parameters[at] = values[i + 1];
        }
      }
    }
    return plan.makeCopy(parameters);
  }

  static boolean hasOutput(LogicalPlan plan, Attribute attribute) {
    return Catalyst.<Attribute>java(plan.output()).stream()
        .anyMatch(each -> each.exprId().equals(attribute.exprId()));
  }

  /** The column of this exact name, or null. */
  static Attribute column(Seq<Attribute> columns, String name) {
    for (Attribute each : Catalyst.<Attribute>java(columns)) {
      if (each.name().equals(name)) {
        return each;
      }
    }
    return null;
  }
}
