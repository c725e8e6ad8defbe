package dev.headwater.rowlineage;

import static dev.headwater.rowlineage.Catalyst.added;
import static dev.headwater.rowlineage.Catalyst.java;
import static dev.headwater.rowlineage.Catalyst.seq;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.Predicate;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.NamedExpression;
import org.apache.spark.sql.catalyst.expressions.PythonUDAF;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.AppendColumns;
import org.apache.spark.sql.catalyst.plans.logical.DeserializeToObject;
import org.apache.spark.sql.catalyst.plans.logical.Distinct;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MapElements;
import org.apache.spark.sql.catalyst.plans.logical.Project;
import org.apache.spark.sql.catalyst.plans.logical.SerializeFromObject;
import org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.View;
import scala.collection.Seq;

/**
 * Adds a column with the parents of each row to an analyzed plan, from the Kafka sources upwards.
 *
 * <p>The other columns keep their order, names and ids.
 */
final class PlanRewriter {
  /** A plan with the column, or the plan as it was with null if no row comes from Kafka. */
  record Rows(LogicalPlan plan, Attribute lineage) {
    boolean haveLineage() {
      return lineage != null;
    }
  }

  /** Nodes whose rows are rows of their first child, with all of its columns. */
  private static final Set<String> PASSING =
      Set.of(
          "AppendColumns",
          "CollectMetrics",
          "Deduplicate",
          "DeduplicateWithinWatermark",
          "EventTimeWatermark",
          "Filter",
          "GlobalLimit",
          "LateralJoin",
          "LocalLimit",
          "Offset",
          "RebalancePartitions",
          "Repartition",
          "RepartitionByExpression",
          "ResolvedHint",
          "Sample",
          "Sort",
          "Tail",
          "TypedFilter",
          "UpdateEventTimeWatermarkColumn",
          "Window",
          "WithWindowDefinition");

  private final Predicate<LogicalPlan> isCached;
  private final boolean withHeaders;
  private final boolean fixedState;
  private final OpaqueSteps opaqueSteps = new OpaqueSteps(this);
  private final Coverage coverage = new Coverage();
  private boolean changesState;
  private boolean mergesParents;
  private QueryRun query;

  /**
   * @param isCached whether the job has persisted the result of a plan
   * @param withHeaders whether the headers of the records are read, for jobs that don't read them
   */
  PlanRewriter(Predicate<LogicalPlan> isCached, boolean withHeaders) {
    this(isCached, withHeaders, true);
  }

  /**
   * @param fixedState whether the lineage in the state of a join has the same fields whatever the
   *     steps before it; else as in checkpoints of version 1 ({@link StateMark})
   */
  PlanRewriter(Predicate<LogicalPlan> isCached, boolean withHeaders, boolean fixedState) {
    this.isCached = isCached;
    this.withHeaders = withHeaders;
    this.fixedState = fixedState;
  }

  /** Whether the state of a streaming query has other columns than without lineage. */
  boolean changesState() {
    return changesState;
  }

  /** Whether a row may have any number of parents. */
  boolean mergesParents() {
    return mergesParents;
  }

  /** The streaming query whose micro-batch is written, or null. */
  QueryRun query() {
    return query;
  }

  Coverage coverage() {
    return coverage;
  }

  Rows rewrite(LogicalPlan plan) {
    return of(Catalyst.inlineCommonTables(plan));
  }

  Rows of(LogicalPlan plan) {
    Rows rows = ofNode(plan);
    return Subqueries.readKafka(plan) ? withUnknown(rows, plan) : rows;
  }

  /** The rows of a node whose values may come from further records. */
  private Rows withUnknown(Rows rows, LogicalPlan plan) {
    coverage.addUnknown("subquery");
    Expression lineage =
        rows.haveLineage() ? LineageStruct.withUnknown(rows.lineage) : LineageStruct.unknown();
    return append(rows.plan, lineage, plan.output());
  }

  private Rows ofNode(LogicalPlan plan) {
    if (plan instanceof SubqueryAlias || plan instanceof View) {
      return of(Catalyst.children(plan).get(0));
    }
    if (Catalyst.children(plan).isEmpty()) {
      return leaf(plan);
    }
    if (!plan.isStreaming() && isCached.test(plan)) {
      // With one more column Spark would not find the cached rows and compute them again: a
      // function with random results would then return others than the job has seen.
      return unknown(plan, "persist");
    }
    if (plan instanceof Union union) {
      return union(union);
    }
    if (plan instanceof Join join) {
      return join(join);
    }
    if (plan instanceof SerializeFromObject out && mapsEach(out)) {
      return map(out);
    }
    if (OpaqueSteps.isOpaque(plan)) {
      return opaqueSteps.of(plan);
    }
    return ofOneChild(plan);
  }

  private Rows ofOneChild(LogicalPlan plan) {
    if (PASSING.contains(plan.getClass().getSimpleName())) {
      Rows child = of(Catalyst.children(plan).get(0));
      return child.haveLineage()
          ? new Rows(Catalyst.withFirstChild(plan, child.plan), child.lineage)
          : new Rows(plan, null);
    }
    boolean known =
        plan instanceof Project
            || plan instanceof Aggregate
            || plan instanceof Distinct
            || plan instanceof Generate
            || plan instanceof Expand;
    if (!known || plan instanceof Aggregate aggregate && hasPythonAggregate(aggregate)) {
      return unknown(plan, plan.getClass().getSimpleName());
    }
    Rows child = of(Catalyst.children(plan).get(0));
    if (!child.haveLineage()) {
      return new Rows(plan, null);
    }
    if (plan instanceof Project project) {
      return new Rows(
          new Project(added(project.projectList(), child.lineage), child.plan), child.lineage);
    }
    if (plan instanceof Aggregate aggregate) {
      return aggregate(aggregate, child);
    }
    if (plan instanceof Distinct) {
      return distinct(plan, child);
    }
    if (plan instanceof Expand expand) {
      return expand(expand, child);
    }
    return Generators.rewrite((Generate) plan, child, this);
  }

  private Rows leaf(LogicalPlan plan) {
    Attribute hidden = Catalyst.column(plan.output(), LineageStruct.COLUMN);
    if (hidden != null) {
      query = QueryRun.of(hidden.metadata());
      return new Rows(plan, hidden);
    }
    ReceivedRows.Origin lost = ReceivedRows.of(plan);
    if (lost != null) {
      query = lost.query();
      return unknown(plan, lost.step());
    }
    if (!KafkaRelations.isKafka(plan)) {
      return new Rows(plan, null);
    }
    LogicalPlan source = withHeaders ? KafkaRelations.withHeaders(plan) : plan;
    Alias lineage = Catalyst.named(LineageStruct.ofRecord(source.output()), LineageStruct.COLUMN);
    return new Rows(new Project(added(plan.output(), lineage), source), lineage.toAttribute());
  }

  private Rows union(Union union) {
    List<LogicalPlan> plans = java(union.children());
    List<Rows> sides = plans.stream().map(this::of).toList();
    if (sides.stream().noneMatch(Rows::haveLineage)) {
      return new Rows(union, null);
    }
    // A record that is read by two sides has two outputs.
    boolean shared = KafkaRelations.mayShareRecords(plans);
    boolean numbered = shared || sides.stream().anyMatch(PlanRewriter::isNumbered);
    List<LogicalPlan> children = new ArrayList<>();
    for (int i = 0; i < sides.size(); i++) {
      Rows side = sides.get(i);
      Expression lineage = side.lineage;
      if (!side.haveLineage()) {
        lineage = LineageStruct.none(numbered);
      } else if (shared) {
        lineage = LineageStruct.numbered(lineage, Catalyst.number(i));
      } else if (numbered) {
        lineage = LineageStruct.withOrdinal(lineage);
      }
      // A union takes columns by position.
      Alias named = Catalyst.named(lineage, LineageStruct.COLUMN);
      children.add(new Project(added(plans.get(i).output(), named), side.plan));
    }
    LogicalPlan rewritten = Catalyst.withChildren(union, children);
    List<Attribute> output = java(rewritten.output());
    return new Rows(rewritten, output.get(output.size() - 1));
  }

  private Rows join(Join join) {
    Rows left = of(join.left());
    Rows right = of(join.right());
    if (!left.haveLineage() && !right.haveLineage()) {
      return new Rows(join, null);
    }
    boolean keepsRows = join.left().isStreaming() && join.right().isStreaming();
    changesState |= keepsRows;
    boolean numbered = isNumbered(left) || isNumbered(right);
    if (keepsRows && fixedState) {
      left = inState(left, join.left());
      right = inState(right, join.right());
    }
    LogicalPlan joined = Catalyst.withChildren(join, List.of(left.plan, right.plan));
    Attribute first = outputOf(joined, left);
    Attribute second = outputOf(joined, right);
    if (first == null && second == null) {
      // A semi or anti join whose left side does not come from Kafka.
      return append(joined, LineageStruct.none(false), join.output());
    }
    Attribute only = first == null ? second : first;
    boolean both = first != null && second != null;
    Expression lineage = both ? LineageStruct.joined(first, second) : only;
    if (!numbered) {
      lineage = LineageStruct.withoutOrdinal(lineage);
    }
    return lineage == only ? new Rows(joined, only) : append(joined, lineage, join.output());
  }

  private static boolean isNumbered(Rows rows) {
    return rows.haveLineage() && LineageStruct.isNumbered(rows.lineage);
  }

  private Rows inState(Rows rows, LogicalPlan plan) {
    return rows.haveLineage()
        ? append(rows.plan, LineageStruct.inState(rows.lineage), plan.output())
        : rows;
  }

  private static Attribute outputOf(LogicalPlan plan, Rows rows) {
    return rows.haveLineage() && Catalyst.hasOutput(plan, rows.lineage) ? rows.lineage : null;
  }

  private Rows aggregate(Aggregate aggregate, Rows child) {
    Alias merged = merged(aggregate, child);
    Seq<NamedExpression> results = added(aggregate.aggregateExpressions(), merged);
    return new Rows(
        Catalyst.withParameter(aggregate, 1, results, child.plan), merged.toAttribute());
  }

  private Alias merged(LogicalPlan plan, Rows child) {
    mergesParents = true;
    changesState |= plan.isStreaming();
    return Catalyst.named(MergeParents.of(child.lineage), LineageStruct.COLUMN);
  }

  private Rows distinct(LogicalPlan plan, Rows child) {
    Alias merged = merged(plan, child);
    List<Object> results = java(plan.output());
    results.add(merged);
    return new Rows(
        Catalyst.aggregate(java(plan.output()), results, child.plan), merged.toAttribute());
  }

  private static Rows expand(Expand expand, Rows child) {
    List<Object> projections = new ArrayList<>();
    long number = 0;
    for (Seq<Expression> each : java(expand.projections())) {
      Expression lineage = LineageStruct.numbered(child.lineage, Catalyst.number(number++));
      projections.add(added(each, lineage));
    }
    Attribute lineage = Catalyst.attribute(LineageStruct.COLUMN, LineageStruct.NUMBERED_TYPE);
    LogicalPlan rewritten =
        new Expand(seq(projections), added(expand.output(), lineage), child.plan);
    return new Rows(rewritten, lineage);
  }

  private static boolean mapsEach(SerializeFromObject out) {
    return out.child() instanceof MapElements map && map.child() instanceof DeserializeToObject;
  }

  /** `Dataset.map`: Spark's node for columns that a function computes keeps the row, too. */
  private Rows map(SerializeFromObject out) {
    MapElements map = (MapElements) out.child();
    DeserializeToObject in = (DeserializeToObject) map.child();
    Rows child = of(in.child());
    if (!child.haveLineage()) {
      return new Rows(out, null);
    }
    LogicalPlan computed =
        new AppendColumns(
            MapFunctions.scala(map.func()),
            map.argumentClass(),
            map.argumentSchema(),
            in.deserializer(),
            out.serializer(),
            child.plan);
    return new Rows(new Project(added(out.output(), child.lineage), computed), child.lineage);
  }

  private static boolean hasPythonAggregate(Aggregate aggregate) {
    // Spark plans no other aggregate together with one in Python.
    return java(aggregate.aggregateExpressions()).stream()
        .anyMatch(each -> ((Expression) each).exists(part -> part instanceof PythonUDAF));
  }

  /** The plan as it is, with unknown parents if a row may come from Kafka. */
  Rows unknown(LogicalPlan plan, String step) {
    if (!KafkaRelations.readsKafka(plan)) {
      return new Rows(plan, null);
    }
    coverage.addUnknown(step);
    return append(plan, LineageStruct.unknown(), plan.output());
  }

  /** These columns of a plan, and a lineage. */
  Rows append(LogicalPlan plan, Expression lineage, Seq<Attribute> columns) {
    Alias named = Catalyst.named(lineage, LineageStruct.COLUMN);
    return new Rows(new Project(added(columns, named), plan), named.toAttribute());
  }
}
