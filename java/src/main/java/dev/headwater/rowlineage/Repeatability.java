package dev.headwater.rowlineage;

import dev.headwater.delivery.ExactlyOnceException;
import dev.headwater.delivery.RecognizedBy;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import org.apache.spark.sql.catalyst.expressions.Attribute;
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
  private static final String OVERLAPPING = "a sequence of too many exploded columns";

  /**
   * @param sharedBy the step after which several rows may have the same parents and ordinal; null
   *     if no two rows have
   * @param disjoint whether no two rows have a parent in common
   * @param positions how many positions the ordinal consists of; with too many they overlap
   * @param orderDependent a function whose result depends on the order of rows, or null
   */
  private record Rows(String sharedBy, boolean disjoint, int positions, String orderDependent) {
    static final Rows RECORDS = new Rows(null, true, 0, null);

    boolean unique() {
      return sharedBy == null;
    }

    /** Rows that may have parents in common with others. */
    static Rows numbered(String sharedBy, int positions) {
      boolean fits = positions <= LineageFunctions.MAX_POSITIONS;
      return new Rows(sharedBy == null && !fits ? OVERLAPPING : sharedBy, false, positions, null);
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
   * What the rows of a plan are recognized by, as a written record has it.
   *
   * @throws ExactlyOnceException the rows may differ from attempt to attempt
   */
  RecognizedBy recognizedBy(LogicalPlan plan) {
    if (!needsContent(plan)) {
      return RecognizedBy.PARENTS;
    }
    Attribute partition = Catalyst.column(plan.output(), "partition");
    if (partition != null && partition.nullable()) {
      throw new ExactlyOnceException(
          "the column partition may be null, and several rows may have the same parents: which of "
              + "them a record is can't be determined; use coalesce(partition, 0), or remove it");
    }
    return partition == null ? RecognizedBy.CONTENT : RecognizedBy.CONTENT_AND_PARTITION;
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
      return KafkaRelations.isKafka(plan) ? Rows.RECORDS : new Rows(STATIC, false, 0, null);
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
          Rows.numbered(
              shared == null ? notNumbered((Generate) plan) : shared, first.positions + 1);
      case "Expand" -> Rows.numbered(shared, first.positions + 1);
      case "Aggregate", "Distinct" ->
          new Rows(first.disjoint ? null : groups(name, first), first.disjoint, 0, function);
      case "Union" -> {
        boolean disjoint = inputs.stream().allMatch(Rows::disjoint);
        int positions = inputs.stream().mapToInt(Rows::positions).max().getAsInt();
        yield KafkaRelations.mayShareRecords(children)
            ? Rows.numbered(shared, positions + 1)
            : new Rows(shared, disjoint, positions, null);
      }
      case "Join" -> join((Join) plan, inputs, shared);
      default -> new Rows(name, false, 0, null);
    };
  }

  private static String groups(String name, Rows input) {
    return input.unique() ? name + " of rows with common parents" : input.sharedBy;
  }

  private static Rows join(Join join, List<Rows> sides, String shared) {
    String type = join.joinType().sql();
    if (type.equals("LEFT SEMI") || type.equals("LEFT ANTI")) {
      return sides.get(0);
    }
    int left = sides.get(0).positions;
    int right = sides.get(1).positions;
    String sharedBy = null;
    if (shared != null) {
      sharedBy = shared.equals(STATIC) ? "Join with " + STATIC : shared;
    } else if (KafkaRelations.mayShareRecords(Catalyst.children(join))) {
      sharedBy = "Join of records with themselves";
    } else if (left > 0 && right > 1) {
      // The ordinal of the right row is one position of that of the joined row.
      sharedBy = OVERLAPPING;
    }
    return Rows.numbered(sharedBy, left == 0 ? right : left + 1);
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
