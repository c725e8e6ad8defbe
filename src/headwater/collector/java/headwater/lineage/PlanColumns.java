package headwater.lineage;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CaseWhen;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.plans.logical.Aggregate;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.Deduplicate;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Filter;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.Join;
import org.apache.spark.sql.catalyst.plans.logical.LateralJoin;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.Sort;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import org.apache.spark.sql.catalyst.plans.logical.Window;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * Column lineage of a batch query: the columns of files and tables that each output column is
 * derived from, and those that determine which rows exist.
 *
 * A plan identifies columns by ids; this class records the origin of each id. Values that a merge
 * copies from its target table are omitted. `columns.py` does the same for streaming queries, and
 * also traces fields of JSON.
 */
final class PlanColumns {
  /** Limit for the depth of expressions, which also ends cycles. */
  private static final int MAX_DEPTH = 500;

  /** A column of a source, and how it is used. */
  private record Origin(int source, String field, Transformation transformation) {
    List<Object> asList() {
      return List.of(
          source,
          field,
          transformation.type(),
          transformation.subtype(),
          transformation.masking(),
          transformation.description());
    }
  }

  /** A step whose code Spark can't analyze, and its inputs. */
  private record Opaque(String step, List<Attribute> inputs) {}

  /** An expression that determines rows; traced after the entire plan is collected. */
  private record Decision(String subtype, Expression expression) {}

  private final String self;
  private final List<Map<String, Object>> sources = new ArrayList<>();
  private final Map<Long, Origin> read = new HashMap<>();
  private final List<Decision> decisions = new ArrayList<>();
  private final Map<Long, List<Expression>> derived = new HashMap<>();
  private final Map<Long, Opaque> opaque = new HashMap<>();
  private final Map<Long, LogicalPlan> common = new HashMap<>();

  private PlanColumns(String self) {
    this.self = self;
  }

  /** `sources`; `fields`, by name, each a list of origins; and `decisive`, origins as well. */
  static Map<String, Object> of(LogicalPlan query, String self) {
    PlanColumns columns = new PlanColumns(self);
    columns.collect(query);
    Map<String, Object> fields = new LinkedHashMap<>();
    for (Attribute output : asJava(query.output())) {
      Set<Origin> found = new LinkedHashSet<>();
      columns.follow(output, Transformation.IDENTITY, found, new HashSet<>(), 0);
      if (!found.isEmpty()) {
        fields.put(output.name(), asLists(found));
      }
    }
    Set<Origin> decisive = new LinkedHashSet<>();
    for (Decision each : columns.decisions) {
      Transformation indirect = Transformation.indirect(each.subtype());
      columns.follow(each.expression(), indirect, decisive, new HashSet<>(), 0);
    }
    return Map.of("sources", columns.sources, "fields", fields, "decisive", asLists(decisive));
  }

  private static List<Object> asLists(Set<Origin> origins) {
    List<Object> lists = new ArrayList<>();
    origins.forEach(each -> lists.add(each.asList()));
    return lists;
  }

  private void collect(LogicalPlan plan) {
    if (plan instanceof LogicalRelation relation
        && relation.relation() instanceof HadoopFsRelation files) {
      List<String> paths = new ArrayList<>();
      asJava(files.location().rootPaths()).forEach(path -> paths.add(path.toString()));
      addSource(Map.of("files", paths, "fields", PlanTables.fields(files.schema())), plan);
    } else if (plan instanceof DataSourceV2Relation relation) {
      String name = PlanTables.nameOf(relation);
      if (name != null && !name.equals(self)) {
        addSource(Map.of("table", name), plan);
      }
    }
    for (LogicalPlan child : asJava(plan.children())) {
      collect(child);
    }
    for (Expression expression : asJava(plan.expressions())) {
      collectAliases(expression);
    }
    collectDecisions(plan);
    if (plan instanceof Union union) {
      for (LogicalPlan child : asJava(union.children())) {
        join(plan.output(), child.output());
      }
    } else if (plan instanceof MergeRows merge) {
      for (var row : asJava(merge.outputs())) {
        join(plan.output(), row);
      }
    } else if (plan instanceof Expand expand) {
      for (var row : asJava(expand.projections())) {
        join(plan.output(), row);
      }
    } else if (plan instanceof Generate generate) {
      for (Attribute output : asJava(generate.generatorOutput())) {
        add(output, (Expression) generate.generator());
      }
    } else if (plan instanceof CTERelationDef definition) {
      common.put(definition.id(), definition.child());
    } else if (plan instanceof CTERelationRef reference && common.containsKey(reference.cteId())) {
      join(plan.output(), common.get(reference.cteId()).output());
    }
    collectOpaque(plan);
  }

  /** Columns that a step adds without an expression. */
  private void collectOpaque(LogicalPlan plan) {
    List<Attribute> inputs = new ArrayList<>();
    asJava(plan.children()).forEach(child -> inputs.addAll(asJava(child.output())));
    // The columns of a lateral join's right side come from its subquery.
    if (inputs.isEmpty() || plan instanceof LateralJoin) {
      return;
    }
    Set<Long> passed = new HashSet<>();
    inputs.forEach(each -> passed.add(each.exprId().id()));
    for (Attribute output : asJava(plan.output())) {
      long id = output.exprId().id();
      if (!passed.contains(id) && !derived.containsKey(id)) {
        opaque.put(id, new Opaque(plan.nodeName(), inputs));
      }
    }
  }

  private void collectDecisions(LogicalPlan plan) {
    if (plan instanceof Filter filter) {
      decide("FILTER", List.of(filter.condition()));
    } else if (plan instanceof Join join && join.condition().isDefined()) {
      decide("JOIN", List.of(join.condition().get()));
    } else if (plan instanceof Aggregate aggregate) {
      decide("GROUP_BY", asJava(aggregate.groupingExpressions()));
    } else if (plan instanceof Deduplicate deduplicate) {
      decide("GROUP_BY", asJava(deduplicate.keys()));
    } else if (plan instanceof Sort sort) {
      decide("SORT", asJava(sort.order()));
    } else if (plan instanceof Window window) {
      decide("WINDOW", asJava(window.partitionSpec()));
      decide("WINDOW", asJava(window.orderSpec()));
    } else if (plan instanceof MergeRows merge) {
      decide("CONDITIONAL", conditions(merge.matchedInstructions()));
      decide("CONDITIONAL", conditions(merge.notMatchedInstructions()));
      decide("CONDITIONAL", conditions(merge.notMatchedBySourceInstructions()));
    }
  }

  private static List<Expression> conditions(Seq<? extends MergeRows.Instruction> cases) {
    List<Expression> found = new ArrayList<>();
    CollectionConverters.asJava(cases).forEach(each -> found.add(each.condition()));
    return found;
  }

  private void decide(String subtype, List<? extends Expression> expressions) {
    expressions.forEach(each -> decisions.add(new Decision(subtype, each)));
  }

  private void addSource(Map<String, Object> source, LogicalPlan leaf) {
    for (Attribute attribute : asJava(leaf.output())) {
      read.put(attribute.exprId().id(), new Origin(sources.size(), attribute.name(), Transformation.IDENTITY));
    }
    sources.add(source);
  }

  private void collectAliases(Expression expression) {
    if (expression instanceof Alias alias) {
      derived.computeIfAbsent(alias.exprId().id(), id -> new ArrayList<>()).add(alias.child());
    }
    if (expression instanceof SubqueryExpression subquery) {
      collect(subquery.plan());
      // A scalar subquery is traced where its value is used.
      if (!(subquery instanceof ScalarSubquery)) {
        decide("FILTER", asJava(subquery.plan().output()));
      }
    }
    asJava(expression.children()).forEach(this::collectAliases);
  }

  private void join(Seq<Attribute> outputs, Seq<? extends Expression> from) {
    List<Attribute> to = asJava(outputs);
    List<? extends Expression> expressions = CollectionConverters.asJava(from);
    for (int at = 0; at < Math.min(to.size(), expressions.size()); at++) {
      add(to.get(at), expressions.get(at));
    }
  }

  private void add(Attribute output, Expression from) {
    // The columns of a union have the ids of its first child.
    if (!(from instanceof Attribute same && same.exprId().id() == output.exprId().id())) {
      derived.computeIfAbsent(output.exprId().id(), id -> new ArrayList<>()).add(from);
    }
  }

  private void follow(
      Expression expression, Transformation how, Set<Origin> found, Set<Object> seen, int depth) {
    if (depth > MAX_DEPTH) {
      return;
    }
    if (expression instanceof Attribute attribute) {
      long id = attribute.exprId().id();
      Origin origin = read.get(id);
      if (origin != null) {
        found.add(new Origin(origin.source(), origin.field(), how));
      }
      if (seen.add(List.of(id, how))) {
        for (Expression from : derived.getOrDefault(id, List.of())) {
          follow(from, how, found, seen, depth + 1);
        }
        Opaque step = opaque.get(id);
        if (step != null) {
          Transformation opaqueStep = how.throughOpaque(step.step());
          step.inputs().forEach(each -> follow(each, opaqueStep, found, seen, depth + 1));
        }
      }
    } else if (expression instanceof Alias alias) {
      follow(alias.child(), how, found, seen, depth + 1);
    } else if (expression instanceof ScalarSubquery subquery) {
      follow(asJava(subquery.plan().output()).get(0), how, found, seen, depth + 1);
    } else if (expression instanceof GetStructField field) {
      Expression part = partOf(field.child(), field.ordinal(), 0);
      follow(part == null ? field.child() : part, how, found, seen, depth + 1);
    } else if (expression instanceof If || expression instanceof CaseWhen) {
      followCases(asJava(expression.children()), how, found, seen, depth);
    } else if (expression instanceof WindowExpression window) {
      // Its partitioning and order are in collectDecisions.
      follow(window.windowFunction(), how.through("TRANSFORMATION", false), found, seen, depth + 1);
    } else {
      Transformation inside = how.inside(expression);
      for (Expression child : asJava(expression.children())) {
        follow(child, inside, found, seen, depth + 1);
      }
    }
  }

  /** Conditions and values alternate; a last one without a pair is the ELSE value. */
  private void followCases(
      List<Expression> cases, Transformation how, Set<Origin> found, Set<Object> seen, int depth) {
    for (int at = 0; at < cases.size(); at++) {
      boolean decides = at % 2 == 0 && (at + 1 < cases.size());
      boolean indirect = decides && how.isDirect();
      Transformation each = indirect ? Transformation.indirect("CONDITIONAL") : how;
      follow(cases.get(at), each, found, seen, depth + 1);
    }
  }

  /** The expression of a struct's field, if the plan has the one that creates the struct. */
  private Expression partOf(Expression struct, int ordinal, int depth) {
    if (depth > MAX_DEPTH) {
      return null;
    }
    if (struct instanceof CreateNamedStruct parts) {
      return parts.valExprs().apply(ordinal);
    }
    if (struct instanceof Alias alias) {
      return partOf(alias.child(), ordinal, depth + 1);
    }
    if (struct instanceof Attribute attribute) {
      List<Expression> from = derived.getOrDefault(attribute.exprId().id(), List.of());
      return from.size() == 1 ? partOf(from.get(0), ordinal, depth + 1) : null;
    }
    return null;
  }

  private static <T> List<T> asJava(Seq<T> scala) {
    return CollectionConverters.asJava(scala);
  }
}
