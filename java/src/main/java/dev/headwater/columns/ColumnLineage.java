package dev.headwater.columns;

import static dev.headwater.compat.CollectionConverters.asJava;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.LateralSubquery;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.expressions.SubqueryExpression;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationDef;
import org.apache.spark.sql.catalyst.plans.logical.CTERelationRef;
import org.apache.spark.sql.catalyst.plans.logical.Expand;
import org.apache.spark.sql.catalyst.plans.logical.Generate;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.MergeRows;
import org.apache.spark.sql.catalyst.plans.logical.Union;
import scala.collection.Seq;

/**
 * Column lineage of a plan: the input fields of each output column, and those that determine which
 * rows exist.
 *
 * <p>Columns are traced through aliases, structs, `from_json`, `get_json_object`, `to_json`,
 * conditions, unions, joins, windows, aggregates, subqueries and merges. A step whose code Spark
 * can't analyze, such as `mapInPandas`, is opaque: its outputs depend on all of its inputs.
 */
public final class ColumnLineage {
  private static final Pattern OPAQUE =
      Pattern.compile(
          "MapIn|InPandas|InArrow|FlatMap|MapGroups|MapElements|MapPartitions|TransformWithState"
              + "|CoGroup|SerializeFromObject|DeserializeToObject|TypedFilter|AppendColumns"
              + "|ScriptTransformation");

  private final Map<LogicalPlan, Integer> leafNumbers = new IdentityHashMap<>();
  private final List<Object> columns = new ArrayList<>();
  private final DecisiveInputs decisive = new DecisiveInputs();
  private final Set<String> opaque = new LinkedHashSet<>();

  /** Output columns of the subqueries, by expression id. */
  private final Map<LogicalPlan, Map<Long, ColumnValue>> subqueries = new IdentityHashMap<>();

  /** Output columns of the common table expressions, in order. */
  private final Map<Long, List<ColumnValue>> common = new HashMap<>();

  private ColumnLineage(List<LogicalPlan> leaves) {
    for (int number = 0; number < leaves.size(); number++) {
      leafNumbers.putIfAbsent(leaves.get(number), number);
    }
  }

  public static ColumnLineage of(LogicalPlan plan) {
    ColumnLineage lineage = new ColumnLineage(leaves(plan));
    Map<Long, ColumnValue> values = lineage.outputs(plan, Map.of());
    for (Attribute each : asJava(plan.output())) {
      ColumnValue value = values.get(each.exprId().id()).withType(each.dataType());
      lineage.columns.add(Map.of("name", each.name(), "value", value.asMap()));
    }
    return lineage;
  }

  /** Leaves by their numbers in the result: from left to right, then those of subqueries. */
  public static List<LogicalPlan> leaves(LogicalPlan plan) {
    List<LogicalPlan> leaves = new ArrayList<>(asJava(plan.collectLeaves()));
    asJava(plan.subqueriesAll()).forEach(each -> leaves.addAll(asJava(each.collectLeaves())));
    return leaves;
  }

  /** `columns`, each with name and value; `decisive`, inputs; `opaque`, names of steps. */
  public Map<String, Object> asMap() {
    Map<String, Object> map = new LinkedHashMap<>();
    map.put("columns", columns);
    map.put("decisive", decisive.asList());
    map.put("opaque", opaque);
    return map;
  }

  /** The result for a plan in JSON, with one call from Python. */
  public static String json(LogicalPlan plan) throws JsonProcessingException {
    return new ObjectMapper().writeValueAsString(of(plan).asMap());
  }

  /**
   * The values of a node's output columns, by expression id.
   *
   * @param outer columns that a correlated subquery can refer to
   */
  private Map<Long, ColumnValue> outputs(LogicalPlan plan, Map<Long, ColumnValue> outer) {
    List<LogicalPlan> children = asJava(plan.children());
    if (children.isEmpty()) {
      return leaf(plan);
    }
    List<List<ColumnValue>> inputs = new ArrayList<>();
    Map<Long, ColumnValue> known = new HashMap<>(outer);
    for (LogicalPlan child : children) {
      Map<Long, ColumnValue> outputs = outputs(child, outer);
      inputs.add(inOrder(child, outputs));
      known.putAll(outputs);
    }
    visitSubqueries(plan, known);
    ExpressionValues values = new ExpressionValues(known, this::scalar);
    decisive.add(plan, values);
    boolean isOpaque = OPAQUE.matcher(kind(plan)).find();
    if (!isOpaque) {
      known.putAll(derived(plan, inputs, values));
    }
    List<Attribute> output = asJava(plan.output());
    boolean isComplete = output.stream().allMatch(each -> known.containsKey(id(each)));
    ColumnValue other = ColumnValue.NOTHING;
    if (isOpaque || !isComplete) {
      other = opaque(plan, inputs.stream().flatMap(List::stream).toList(), isComplete);
    }
    Map<Long, ColumnValue> outputs = new HashMap<>();
    for (Attribute each : output) {
      outputs.put(id(each), known.getOrDefault(id(each), other));
    }
    if (plan instanceof CTERelationDef definition) {
      common.put(definition.id(), inOrder(plan, outputs));
    }
    return outputs;
  }

  private Map<Long, ColumnValue> leaf(LogicalPlan leaf) {
    if (leaf instanceof CTERelationRef reference && common.containsKey(reference.cteId())) {
      return byPosition(leaf, List.of(common.get(reference.cteId())));
    }
    Map<Long, ColumnValue> outputs = new HashMap<>();
    for (Attribute each : asJava(leaf.output())) {
      ColumnValue value = ColumnValue.read(leafNumbers.get(leaf), each.name(), each.dataType());
      outputs.put(id(each), value);
    }
    return outputs;
  }

  /** A step whose code Spark can't analyze: a function of all inputs, or a filter by them. */
  private ColumnValue opaque(LogicalPlan plan, List<ColumnValue> inputs, boolean isFilter) {
    opaque.add(kind(plan));
    if (isFilter) {
      decisive.add("FILTER", inputs);
    }
    String reason = kind(plan) + " is opaque: it may depend on any of its inputs";
    return ColumnValue.madeFrom(inputs, Transformation.opaque(reason));
  }

  /** The values of the columns that a node adds or changes. */
  private static Map<Long, ColumnValue> derived(
      LogicalPlan plan, List<List<ColumnValue>> inputs, ExpressionValues values) {
    if (plan instanceof Union) {
      return byPosition(plan, inputs);
    } else if (plan instanceof Expand expand) {
      return byPosition(plan, rows(expand.projections(), values));
    } else if (plan instanceof MergeRows merge) {
      return byPosition(plan, mergedRows(merge, values));
    }
    Map<Long, ColumnValue> derived = new HashMap<>();
    if (plan instanceof Generate generate) {
      ColumnValue generated = values.of((Expression) generate.generator());
      asJava(generate.generatorOutput()).forEach(each -> derived.put(id(each), generated));
    }
    for (Expression each : asJava(plan.expressions())) {
      if (each instanceof Alias alias) {
        derived.put(alias.exprId().id(), values.of(alias));
      }
    }
    return derived;
  }

  private static List<List<ColumnValue>> mergedRows(MergeRows merge, ExpressionValues values) {
    List<List<ColumnValue>> rows = new ArrayList<>();
    for (var instructions :
        List.of(
            merge.matchedInstructions(),
            merge.notMatchedInstructions(),
            merge.notMatchedBySourceInstructions())) {
      asJava(instructions).forEach(each -> rows.addAll(rows(each.outputs(), values)));
    }
    return rows;
  }

  private static List<List<ColumnValue>> rows(
      Seq<? extends Seq<Expression>> rows, ExpressionValues values) {
    return asJava(rows).stream().map(row -> asJava(row).stream().map(values::of).toList()).toList();
  }

  /** Each output column is the one at the same position of one of the rows. */
  private static Map<Long, ColumnValue> byPosition(LogicalPlan plan, List<List<ColumnValue>> rows) {
    Map<Long, ColumnValue> outputs = new HashMap<>();
    List<Attribute> output = asJava(plan.output());
    for (int at = 0; at < output.size(); at++) {
      int position = at;
      List<ColumnValue> same =
          rows.stream().filter(row -> position < row.size()).map(row -> row.get(position)).toList();
      outputs.put(id(output.get(at)), ColumnValue.merged(same));
    }
    return outputs;
  }

  /** Adds the columns of lateral subqueries to `known`. */
  private void visitSubqueries(LogicalPlan plan, Map<Long, ColumnValue> known) {
    Deque<Expression> open = new ArrayDeque<>(asJava(plan.expressions()));
    while (!open.isEmpty()) {
      Expression each = open.pop();
      if (each instanceof SubqueryExpression subquery) {
        Map<Long, ColumnValue> outputs = outputs(subquery.plan(), known);
        subqueries.put(subquery.plan(), outputs);
        if (subquery instanceof LateralSubquery) {
          known.putAll(outputs);
        }
        // A scalar subquery is traced where its value is used.
        if (!(subquery instanceof ScalarSubquery)) {
          decisive.add("FILTER", inOrder(subquery.plan(), outputs));
        }
      }
      open.addAll(asJava(each.children()));
    }
  }

  private ColumnValue scalar(ScalarSubquery subquery) {
    return inOrder(subquery.plan(), subqueries.get(subquery.plan())).get(0);
  }

  private static List<ColumnValue> inOrder(LogicalPlan plan, Map<Long, ColumnValue> outputs) {
    return asJava(plan.output()).stream().map(each -> outputs.get(id(each))).toList();
  }

  private static long id(Attribute attribute) {
    return attribute.exprId().id();
  }

  private static String kind(LogicalPlan plan) {
    return plan.getClass().getSimpleName();
  }
}
