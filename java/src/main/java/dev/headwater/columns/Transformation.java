package dev.headwater.columns;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * How a value depends on an input field, in OpenLineage's terms. With `masking` the input values
 * can't be derived from the output.
 */
record Transformation(String type, String subtype, boolean masking, String description) {
  static final Transformation IDENTITY = direct("IDENTITY");

  /** A function of the input. */
  static final Transformation FUNCTION = direct("TRANSFORMATION");

  private static final String DIRECT = "DIRECT";
  private static final String AGGREGATION = "AGGREGATION";

  private static Transformation direct(String subtype) {
    return new Transformation(DIRECT, subtype, false, "");
  }

  static Transformation indirect(String subtype) {
    return new Transformation("INDIRECT", subtype, false, "");
  }

  static Transformation mask() {
    return new Transformation(DIRECT, FUNCTION.subtype, true, "");
  }

  static Transformation aggregation(boolean masking) {
    return new Transformation(DIRECT, AGGREGATION, masking, "");
  }

  /** A function whose code Spark can't analyze. */
  static Transformation opaque(String description) {
    return new Transformation(DIRECT, FUNCTION.subtype, false, description);
  }

  /** This transformation and then another; aggregated and masked values stay so. */
  Transformation then(Transformation step) {
    if (!type.equals(DIRECT)) {
      return this;
    }
    String kept = subtype.equals(AGGREGATION) ? subtype : step.subtype;
    String reason = step.description.isEmpty() ? description : step.description;
    return new Transformation(type, kept, masking || step.masking, reason);
  }

  /** In the order of the facet: equal facets must have equal texts. */
  Map<String, Object> asMap() {
    Map<String, Object> map = new LinkedHashMap<>();
    map.put("type", type);
    map.put("subtype", subtype);
    map.put("description", description);
    map.put("masking", masking);
    return map;
  }
}
