package dev.headwater.rowlineage;

import static dev.headwater.rowlineage.Catalyst.java;
import static dev.headwater.rowlineage.Catalyst.seq;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapPartitions;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.RepartitionByExpression;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.ObjectType;
import scala.Option;

/**
 * Functions that Spark can't analyze and that receive several rows: `mapInPandas`, `applyInPandas`,
 * `mapPartitions`, `flatMapGroups`, `transformWithState` and their like.
 *
 * <p>Before the function a filter records the rows that it receives, after it they become the
 * lineage of the rows that it returns: {@link PulledRows}.
 */
final class OpaqueSteps {
  private static final Pattern KINDS =
      Pattern.compile(
          "MapInPandas|(Python)?MapInArrow|FlatMapGroupsIn.*|FlatMapCoGroupsIn.*|MapPartitions.*|MapGroups"
              + "|CoGroup|FlatMapGroupsWithState|TransformWithState.*|SerializeFromObject");

  private final PlanRewriter rewriter;
  private int steps;

  OpaqueSteps(PlanRewriter rewriter) {
    this.rewriter = rewriter;
  }

  static boolean isOpaque(LogicalPlan plan) {
    return KINDS.matcher(nameOf(plan)).matches();
  }

  PlanRewriter.Rows of(LogicalPlan plan) {
    if (!KafkaRelations.readsKafka(plan)) {
      return new PlanRewriter.Rows(plan, null);
    }
    List<LogicalPlan> nodes = withObjects(plan, new ArrayList<>());
    if (!nodes.stream().allMatch(each -> isOpaque(each) || handlesObjects(each))) {
      return rewriter.unknown(plan, nameOf(plan));
    }
    LogicalPlan function =
        nodes.stream()
            .filter(each -> isOpaque(each) && !nameOf(each).equals("SerializeFromObject"))
            .findFirst()
            .orElse(plan);
    Step step =
        new Step(
            Catalyst.text(nameOf(function) + steps++),
            function instanceof MapPartitions map && MapFunctions.isFlatMap(map.func()),
            nameOf(function).contains("WithState"),
            groupingKeys(function));
    LogicalPlan rewritten = observed(plan, step, true);
    if (!step.oneByOne()) {
      rewriter.coverage().addWithin(nameOf(function));
    }
    return rewriter.append(rewritten, step.lineage(), plan.output());
  }

  private record Step(Expression name, boolean oneByOne, boolean stateful, List<Attribute> keys) {
    Expression lineage() {
      if (oneByOne) {
        return Catalyst.call(PulledRows.class, "ofLast", LineageStruct.NUMBERED_TYPE, false, name);
      }
      Expression flag = Literal.create(stateful, DataTypes.BooleanType);
      return Catalyst.call(PulledRows.class, "within", LineageStruct.TYPE, false, name, flag);
    }

    Expression pull(Attribute lineage) {
      Expression flag = Literal.create(oneByOne, DataTypes.BooleanType);
      return Catalyst.call(
          PulledRows.class, "pull", DataTypes.BooleanType, false, name, flag, lineage);
    }
  }

  /** The step with a filter on each of its inputs. */
  private LogicalPlan observed(LogicalPlan plan, Step step, boolean first) {
    if (first || hasObjects(plan)) {
      List<LogicalPlan> children = new ArrayList<>();
      for (LogicalPlan child : Catalyst.<LogicalPlan>java(plan.children())) {
        children.add(observed(child, step, false));
      }
      return Catalyst.withChildren(plan, children);
    }
    PlanRewriter.Rows rows = rewriter.of(plan);
    if (!rows.haveLineage()) {
      return plan;
    }
    LogicalPlan input = rows.plan();
    List<Attribute> keys =
        step.keys().stream().filter(each -> Catalyst.hasOutput(plan, each)).toList();
    if (!keys.isEmpty()) {
      // The task of the function must be the one that records its rows: the shuffle that the
      // function needs has to come before. Spark adds no second one.
      input = new RepartitionByExpression(seq(keys), input, Option.empty(), Option.empty());
    }
    return new Project(seq(java(plan.output())), new Filter(step.pull(rows.lineage()), input));
  }

  /** The node, and those below it that exchange objects instead of rows. */
  private static List<LogicalPlan> withObjects(LogicalPlan plan, List<LogicalPlan> nodes) {
    nodes.add(plan);
    for (LogicalPlan child : Catalyst.<LogicalPlan>java(plan.children())) {
      if (hasObjects(child)) {
        withObjects(child, nodes);
      }
    }
    return nodes;
  }

  private static boolean handlesObjects(LogicalPlan plan) {
    return List.of("DeserializeToObject", "MapElements").contains(nameOf(plan));
  }

  private static boolean hasObjects(LogicalPlan plan) {
    return Catalyst.<Attribute>java(plan.output()).stream()
        .anyMatch(each -> each.dataType() instanceof ObjectType);
  }

  private static List<Attribute> groupingKeys(LogicalPlan plan) {
    // `CoGroup` has one list for each side. `TransformWithStateInPySpark` without an initial state
    // has the same list for both: with its keys twice the shuffle would not be the one it needs.
    Set<List<Attribute>> keys = new LinkedHashSet<>();
    for (String name :
        List.of(
            "groupingAttributes", "leftGroup", "rightGroup", "leftAttributes", "rightAttributes")) {
      try {
        Object found = plan.getClass().getMethod(name).invoke(plan);
        if (found instanceof scala.collection.Seq<?> list) {
          keys.add(java(list).stream().map(Attribute.class::cast).toList());
        }
      } catch (ReflectiveOperationException none) {
        continue;
      }
    }
    return keys.stream().flatMap(List::stream).toList();
  }

  private static String nameOf(LogicalPlan plan) {
    return plan.getClass().getSimpleName();
  }
}
