package dev.headwater.columns;

import static dev.headwater.compat.CollectionConverters.asJava;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.catalyst.expressions.Alias;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.CaseWhen;
import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetJsonObject;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.If;
import org.apache.spark.sql.catalyst.expressions.JsonToStructs;
import org.apache.spark.sql.catalyst.expressions.Literal;
import org.apache.spark.sql.catalyst.expressions.OuterReference;
import org.apache.spark.sql.catalyst.expressions.PythonUDF;
import org.apache.spark.sql.catalyst.expressions.ScalarSubquery;
import org.apache.spark.sql.catalyst.expressions.StructsToJson;
import org.apache.spark.sql.catalyst.expressions.WindowExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;

/** The values of a plan node's expressions, from the values of the columns that it reads. */
final class ExpressionValues {
  /** Below this depth an expression is a function of all columns that it refers to. */
  private static final int MAX_DEPTH = 200;

  private static final Set<String> HASHES =
      Set.of("Sha1", "Sha2", "Md5", "XxHash64", "Murmur3Hash", "HiveHash", "Crc32", "Mask");

  private static final Set<String> COUNTS = Set.of("Count", "HyperLogLogPlusPlus");

  /** Wrappers that Spark puts around a value without changing it. */
  private static final Set<String> TRANSPARENT =
      Set.of("KnownNotNull", "KnownNotContainsNull", "AssertNotNull", "UpCast");

  private static final String STEP = "\\.([^.\\[\\]'*]+)|\\['([^']+)'\\]";
  private static final Pattern JSON_STEP = Pattern.compile(STEP);
  private static final Pattern JSON_PATH = Pattern.compile("\\$(?:" + STEP + ")+");

  private final Map<Long, ColumnValue> known;
  private final Function<ScalarSubquery, ColumnValue> subqueries;

  /**
   * @param known the values of columns by expression id
   * @param subqueries returns the value of a scalar subquery
   */
  ExpressionValues(Map<Long, ColumnValue> known, Function<ScalarSubquery, ColumnValue> subqueries) {
    this.known = known;
    this.subqueries = subqueries;
  }

  ColumnValue of(Expression expression) {
    return of(expression, 0);
  }

  private ColumnValue of(Expression expression, int depth) {
    if (depth > MAX_DEPTH) {
      List<ColumnValue> referenced = new ArrayList<>();
      asJava(expression.references()).forEach(each -> referenced.add(of(each)));
      return ColumnValue.madeFrom(referenced, Transformation.FUNCTION);
    }
    if (expression instanceof Attribute attribute) {
      return known.getOrDefault(attribute.exprId().id(), ColumnValue.NOTHING);
    } else if (expression instanceof Alias alias) {
      return of(alias.child(), depth + 1);
    } else if (expression instanceof OuterReference outer) {
      return of((Expression) outer.e(), depth + 1);
    } else if (expression instanceof ScalarSubquery subquery) {
      return subqueries.apply(subquery);
    } else if (expression instanceof Cast cast) {
      return cast(cast, depth);
    } else if (expression instanceof CreateNamedStruct struct) {
      return struct(struct, depth);
    } else if (expression instanceof GetStructField field) {
      return structField(field, depth);
    } else if (expression instanceof JsonToStructs json) {
      return of(json.child(), depth + 1).readAs(json.schema());
    } else if (expression instanceof StructsToJson json) {
      return of(json.child(), depth + 1).withType(DataTypes.StringType);
    } else if (expression instanceof GetJsonObject json) {
      return jsonField(json, depth);
    } else if (expression instanceof If || expression instanceof CaseWhen) {
      return cases(children(expression, depth));
    } else if (expression instanceof Coalesce) {
      return ColumnValue.merged(children(expression, depth));
    } else if (expression instanceof WindowExpression window) {
      // Its partitioning and order determine rows: see ColumnLineage.
      return function(List.of(of(window.windowFunction(), depth + 1)));
    }
    return step(expression, children(expression, depth));
  }

  private List<ColumnValue> children(Expression expression, int depth) {
    List<ColumnValue> values = new ArrayList<>();
    asJava(expression.children()).forEach(each -> values.add(of(each, depth + 1)));
    return values;
  }

  private static ColumnValue function(List<ColumnValue> values) {
    return ColumnValue.madeFrom(values, Transformation.FUNCTION);
  }

  private static ColumnValue step(Expression expression, List<ColumnValue> values) {
    String name = expression.getClass().getSimpleName();
    if (TRANSPARENT.contains(name) && values.size() == 1) {
      return values.get(0);
    } else if (expression instanceof AggregateExpression aggregate) {
      String counted = aggregate.aggregateFunction().getClass().getSimpleName();
      Transformation aggregation = Transformation.aggregation(COUNTS.contains(counted));
      return ColumnValue.madeFrom(values, aggregation);
    } else if (expression instanceof PythonUDF udf) {
      return ColumnValue.madeFrom(values, Transformation.opaque(udf.name() + " is opaque"));
    } else if (HASHES.contains(name)) {
      return ColumnValue.madeFrom(values, Transformation.mask());
    }
    return function(values);
  }

  private ColumnValue cast(Cast cast, int depth) {
    ColumnValue value = of(cast.child(), depth + 1);
    DataType from = cast.child().dataType();
    DataType to = cast.dataType();
    boolean keepsText = ColumnValue.isText(to) && (ColumnValue.isText(from) || value.isStruct());
    return (to.equals(from) || keepsText ? value : function(List.of(value))).withType(to);
  }

  private ColumnValue struct(CreateNamedStruct struct, int depth) {
    List<Expression> values = asJava(struct.valExprs());
    StructField[] fields = struct.dataType().fields();
    Map<String, ColumnValue> parts = new LinkedHashMap<>();
    for (int at = 0; at < fields.length; at++) {
      ColumnValue part = of(values.get(at), depth + 1).withType(fields[at].dataType());
      // Spark allows several fields of one name.
      parts.merge(fields[at].name(), part, (a, b) -> ColumnValue.merged(List.of(a, b)));
    }
    return new ColumnValue(Map.of(), parts, struct.dataType());
  }

  private ColumnValue structField(GetStructField field, int depth) {
    ColumnValue struct = of(field.child(), depth + 1);
    StructField declared = field.childSchema().fields()[field.ordinal()];
    // Spark matches the structs of a union by position: the names may differ.
    return struct.isStruct() && !struct.parts().containsKey(declared.name())
        ? function(List.of(struct))
        : struct.part(declared.name(), declared.dataType());
  }

  private ColumnValue jsonField(GetJsonObject json, int depth) {
    String path = json.path() instanceof Literal literal ? String.valueOf(literal.value()) : "";
    if (!JSON_PATH.matcher(path).matches()) {
      return function(children(json, depth));
    }
    ColumnValue value = of(json.json(), depth + 1);
    Matcher step = JSON_STEP.matcher(path);
    while (step.find()) {
      String name = step.group(1) != null ? step.group(1) : step.group(2);
      value = value.part(name, DataTypes.StringType);
    }
    return value;
  }

  /** Conditions and values alternate; a last one without a pair is the ELSE value. */
  private static ColumnValue cases(List<ColumnValue> cases) {
    List<ColumnValue> branches = new ArrayList<>();
    List<ColumnValue> conditions = new ArrayList<>();
    for (int at = 0; at < cases.size(); at++) {
      boolean isCondition = at % 2 == 0 && at + 1 < cases.size();
      (isCondition ? conditions : branches).add(cases.get(at));
    }
    ColumnValue value = ColumnValue.merged(branches);
    for (ColumnValue condition : conditions) {
      value = value.depending(condition, "CONDITIONAL");
    }
    return value;
  }
}
