package dev.headwater.columns;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.spark.sql.types.ArrayType;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.MapType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;

/**
 * Lineage of a column, or of a field of a struct column or of JSON text.
 *
 * @param inputs of the value itself; those of its parts are in `parts`
 * @param parts fields of a struct or of JSON; null if they are unknown
 * @param type null where it is unknown
 */
record ColumnValue(
    Map<Field, Set<Transformation>> inputs, Map<String, ColumnValue> parts, DataType type) {
  static final ColumnValue NOTHING = new ColumnValue(Map.of(), null, null);

  /** A field of an input: the number of the plan's leaf, and the path of the field in it. */
  record Field(int leaf, List<String> path) {
    Field part(String name) {
      List<String> longer = new ArrayList<>(path);
      longer.add(name);
      return new Field(leaf, longer);
    }
  }

  /** The value of a column that a leaf reads. */
  static ColumnValue read(int leaf, String name, DataType type) {
    return copyOf(new Field(leaf, List.of(name)), type);
  }

  private static ColumnValue copyOf(Field field, DataType type) {
    return new ColumnValue(Map.of(field, Set.of(Transformation.IDENTITY)), null, type);
  }

  /** The input field that this value is an unchanged copy of; null if it is not one. */
  private Field copied() {
    if (inputs.size() != 1) {
      return null;
    }
    var only = inputs.entrySet().iterator().next();
    return only.getValue().equals(Set.of(Transformation.IDENTITY)) ? only.getKey() : null;
  }

  boolean isStruct() {
    return parts != null;
  }

  ColumnValue withType(DataType known) {
    return new ColumnValue(inputs, parts, known);
  }

  /** A field of this struct or JSON. */
  ColumnValue part(String name, DataType partType) {
    ColumnValue part = isStruct() ? parts.get(name) : null;
    if (part != null && inputs.isEmpty()) {
      return part;
    }
    Field field = copied();
    ColumnValue other =
        field == null
            ? new ColumnValue(inputs, null, partType)
            : copyOf(field.part(name), partType);
    return part == null ? other : merged(List.of(part, other));
  }

  /** This text parsed as JSON: one part per field. */
  ColumnValue readAs(DataType schema) {
    if (schema instanceof StructType struct) {
      Map<String, ColumnValue> fields = new LinkedHashMap<>();
      for (StructField each : struct.fields()) {
        fields.put(each.name(), part(each.name(), null).readAs(each.dataType()));
      }
      return new ColumnValue(Map.of(), fields, schema);
    }
    ColumnValue value =
        isStruct() && !isText(schema) ? madeFrom(List.of(this), Transformation.FUNCTION) : this;
    return value.withType(schema);
  }

  /** One of several values, such as the branches of a CASE; it depends on all of them. */
  static ColumnValue merged(Collection<ColumnValue> values) {
    if (values.size() == 1) {
      return values.iterator().next();
    }
    Map<Field, Set<Transformation>> inputs = new LinkedHashMap<>();
    Map<String, List<ColumnValue>> named = new LinkedHashMap<>();
    DataType type = null;
    for (ColumnValue value : values) {
      value.inputs.forEach((field, how) -> add(inputs, field, how));
      if (value.isStruct()) {
        value.parts.forEach(
            (name, part) -> named.computeIfAbsent(name, key -> new ArrayList<>()).add(part));
      }
      type = type == null ? value.type : type;
    }
    Map<String, ColumnValue> parts = new LinkedHashMap<>();
    named.forEach((name, each) -> parts.put(name, merged(each)));
    return new ColumnValue(inputs, parts.isEmpty() ? null : parts, type);
  }

  /** The result of a function of these values. */
  static ColumnValue madeFrom(Collection<ColumnValue> values, Transformation step) {
    Map<Field, Set<Transformation>> inputs = new LinkedHashMap<>();
    for (ColumnValue value : values) {
      value
          .allInputs()
          .forEach(
              (field, how) -> how.forEach(each -> add(inputs, field, Set.of(each.then(step)))));
    }
    return new ColumnValue(inputs, null, null);
  }

  /** This value with an indirect dependency, such as on the condition of a CASE. */
  ColumnValue depending(ColumnValue on, String subtype) {
    Map<Field, Set<Transformation>> more = new LinkedHashMap<>(inputs);
    Map<String, ColumnValue> dependent = null;
    if (isStruct()) {
      dependent = new LinkedHashMap<>();
      for (var each : parts.entrySet()) {
        dependent.put(each.getKey(), each.getValue().depending(on, subtype));
      }
    }
    if (!inputs.isEmpty() || !isStruct()) {
      Set<Transformation> added = Set.of(Transformation.indirect(subtype));
      on.allInputs().keySet().forEach(field -> add(more, field, added));
    }
    return new ColumnValue(more, dependent, type);
  }

  /** The inputs of this value and of its parts. */
  Map<Field, Set<Transformation>> allInputs() {
    if (!isStruct()) {
      return inputs;
    }
    Map<Field, Set<Transformation>> all = new LinkedHashMap<>(inputs);
    parts.values().forEach(part -> part.allInputs().forEach((field, how) -> add(all, field, how)));
    return all;
  }

  /** Never changes a set: values share them. */
  static void add(Map<Field, Set<Transformation>> inputs, Field field, Set<Transformation> added) {
    inputs.merge(
        field,
        added,
        (known, more) -> {
          Set<Transformation> both = new LinkedHashSet<>(known);
          both.addAll(more);
          return both;
        });
  }

  static boolean isText(DataType type) {
    return type instanceof StringType || type instanceof BinaryType;
  }

  Map<String, Object> asMap() {
    Map<String, Object> map = new LinkedHashMap<>();
    map.put("inputs", asList(inputs));
    if (isStruct()) {
      Map<String, Object> fields = new LinkedHashMap<>();
      parts.forEach((name, part) -> fields.put(name, part.asMap()));
      map.put("parts", fields);
    }
    if (type != null) {
      map.put("type", nameOf(type));
    }
    return map;
  }

  static List<Object> asList(Map<Field, Set<Transformation>> inputs) {
    List<Object> list = new ArrayList<>();
    inputs.forEach(
        (field, how) ->
            list.add(
                Map.of(
                    "leaf", field.leaf(),
                    "path", field.path(),
                    "transformations", how.stream().map(Transformation::asMap).toList())));
    return list;
  }

  /** As in Spark's JSON format of schemas; nested types without their fields. */
  private static String nameOf(DataType type) {
    if (type instanceof StructType || type instanceof ArrayType || type instanceof MapType) {
      return type.typeName();
    }
    String json = type.json();
    return json.startsWith("\"") ? json.substring(1, json.length() - 1) : "udt";
  }
}
