package dev.headwater.rowlineage;

import dev.headwater.delivery.ExactlyOnceException;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateFunction;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.catalyst.expressions.aggregate.Max;
import org.apache.spark.sql.catalyst.expressions.aggregate.Min;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.DoubleType;
import org.apache.spark.sql.types.FloatType;

/**
 * How the rows of a plan can be recognized if a batch is run again: by their parents and ordinal,
 * if no two rows have the same, or by key and value, too.
 *
 * <p>Steps whose rows differ from attempt to attempt are refused. What Spark does not know, such as
 * a Python function that returns random values, can't be found here.
 */
final class Repeatability {
  private static final Set<String> ARBITRARY =
      Set.of("GlobalLimit", "LocalLimit", "Offset", "Tail", "Sample");
  private static final Set<String> DEDUPLICATING =
      Set.of("Deduplicate", "DeduplicateWithinWatermark");
  // Each row is a row of the child, or made of exactly one.
  private static final Set<String> PASSING =
      Set.of(
          "AppendColumns",
          "CollectMetrics",
          "DeserializeToObject",
          "EventTimeWatermark",
          "Filter",
          "MapElements",
          "Project",
          "RebalancePartitions",
          "Repartition",
          "RepartitionByExpression",
          "ResolvedHint",
          "SerializeFromObject",
          "Sort",
          "SubqueryAlias",
          "TypedFilter",
          "UpdateEventTimeWatermarkColumn",
          "View");
  // Spark does not know of aggregates whether the order of rows matters. In these it does not,
  // unless
  // they add floating point numbers.
  private static final Set<String> ORDERLESS =
      Set.of(
          "Average",
          "BitAndAgg",
          "BitOrAgg",
          "BitXorAgg",
          "BoolAnd",
          "BoolOr",
          "Count",
          "CountIf",
          "HyperLogLogPlusPlus",
          "Sum");
  private static final Set<String> NUMBERING = Set.of("Explode", "PosExplode", "Inline");
  private static final String STATIC = "rows that are not from Kafka";

  /**
   * @param sharedBy the step after which several rows may have the same parents and ordinal; null
   *     if no two rows have
   * @param disjoint whether no two rows have a parent in common
   * @param orderDependent a function whose result depends on the order of rows, or null
   */
  private record Rows(String sharedBy, boolean disjoint, String orderDependent) {
    boolean unique() {
      return sharedBy == null;
    }
  }

  private final boolean onOneMachine;
  private final boolean refuses;

  /**
   * @param onOneMachine whether tasks receive rows of a shuffle in the same order each time
   */
  Repeatability(boolean onOneMachine) {
    this(onOneMachine, true);
  }

  private Repeatability(boolean onOneMachine, boolean refuses) {
    this.onOneMachine = onOneMachine;
    this.refuses = refuses;
  }

  /**
   * The step after which several rows may have the same parents and ordinal, or null. Refuses
   * nothing: rows that are recognized by their parents alone may differ from attempt to attempt.
   */
  static String sharedBy(LogicalPlan plan) {
    return new Repeatability(true, false).of(Catalyst.inlineCommonTables(plan)).sharedBy;
  }

  /**
   * Whether rows have to be recognized by key and value, too.
   *
   * @throws ExactlyOnceException the rows may differ from attempt to attempt
   */
  boolean needsContent(LogicalPlan plan) {
    Rows rows = of(Catalyst.inlineCommonTables(plan));
    if (!rows.unique() && rows.orderDependent != null) {
      refuse(
          rows.orderDependent
              + ": its result depends on the order of rows, and other rows may have the same"
              + " parents");
    }
    return !rows.unique();
  }

  private Rows of(LogicalPlan plan) {
    String name = plan.getClass().getSimpleName();
    List<LogicalPlan> children = Catalyst.children(plan);
    if (children.isEmpty()) {
      boolean kafka = KafkaRelations.isKafka(plan);
      return new Rows(kafka ? null : STATIC, kafka, null);
    }
    if (ARBITRARY.contains(name)) {
      refuse(name + ": which rows it takes may differ when the batch runs again");
    }
    if (DEDUPLICATING.contains(name) && !onOneMachine) {
      refuse(
          name
              + ": on a cluster, which of equal rows it keeps may differ when the batch runs"
              + " again");
    }
    String function = function(plan);
    List<Rows> inputs = children.stream().map(this::of).toList();
    Rows first = inputs.get(0);
    if (PASSING.contains(name) || ARBITRARY.contains(name)) {
      return first;
    }
    for (Rows input : inputs) {
      if (input.orderDependent != null) {
        refuse(input.orderDependent + " before " + name + ": its result depends on the order");
      }
    }
    String shared =
        inputs.stream().map(Rows::sharedBy).filter(Objects::nonNull).findFirst().orElse(null);
    return switch (name) {
      case "Deduplicate", "DeduplicateWithinWatermark" -> first;
      case "Generate" ->
          new Rows(shared == null ? notNumbered((Generate) plan) : shared, false, null);
      case "Expand" -> new Rows(shared, false, null);
      case "Aggregate", "Distinct" ->
          new Rows(first.disjoint ? null : groups(name, first), first.disjoint, function);
      case "Union" -> {
        boolean disjoint = inputs.stream().allMatch(Rows::disjoint);
        yield new Rows(shared, disjoint && !KafkaRelations.mayShareRecords(children), null);
      }
      case "Join" -> join((Join) plan, first, shared);
      default -> new Rows(name, false, null);
    };
  }

  private static String groups(String name, Rows input) {
    return input.unique() ? name + " of rows with common parents" : input.sharedBy;
  }

  private static Rows join(Join join, Rows first, String shared) {
    String type = join.joinType().sql();
    if (type.equals("LEFT SEMI") || type.equals("LEFT ANTI")) {
      return first;
    }
    if (shared != null) {
      return new Rows(shared.equals(STATIC) ? "Join with " + STATIC : shared, false, null);
    }
    boolean self = KafkaRelations.mayShareRecords(Catalyst.children(join));
    return new Rows(self ? "Join of records with themselves" : null, false, null);
  }

  /** The name of a generator whose rows have no numbers, or null. */
  private static String notNumbered(Generate generate) {
    Expression generator = (Expression) generate.generator();
    boolean numbered = NUMBERING.contains(generator.getClass().getSimpleName());
    return numbered ? null : generator.prettyName();
  }

  /** A function whose result depends on the order of rows, or null. */
  private String function(LogicalPlan plan) {
    String found = null;
    for (Expression each : Catalyst.<Expression>java(plan.expressions())) {
      String dependent = function(each);
      found = found == null ? dependent : found;
    }
    return found;
  }

  private String function(Expression expression) {
    String found = null;
    boolean children = true;
    for (Expression child : Catalyst.<Expression>java(expression.children())) {
      String dependent = function(child);
      found = found == null ? dependent : found;
      children &= child.deterministic();
    }
    if (expression instanceof AggregateFunction aggregate && dependsOnOrder(aggregate)) {
      found = aggregate.prettyName();
    }
    if (children && !expression.deterministic()) {
      refuse(expression.prettyName() + ": its result may differ when the batch runs again");
    }
    return found;
  }

  private static boolean dependsOnOrder(AggregateFunction function) {
    if (function instanceof Min || function instanceof Max) {
      return false;
    }
    boolean addsFractions =
        Catalyst.<Expression>java(function.children()).stream()
            .map(Expression::dataType)
            .anyMatch(type -> type instanceof DoubleType || type instanceof FloatType);
    return addsFractions && !(function instanceof Count)
        || !ORDERLESS.contains(function.getClass().getSimpleName());
  }

  private void refuse(String reason) {
    if (refuses) {
      throw new ExactlyOnceException(
          "the query can't be repeated, because of " + reason + "; use delivery=transactional");
    }
  }
}
