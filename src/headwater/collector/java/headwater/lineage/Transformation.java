package headwater.lineage;

import java.util.Set;

import org.apache.spark.sql.catalyst.expressions.Cast;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.Count;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;

/**
 * How an output column depends on an input column, in OpenLineage's terms. With `masking` the input
 * values can't be derived from the output.
 */
record Transformation(String type, String subtype, boolean masking, String description) {
  static final Transformation IDENTITY = new Transformation("DIRECT", "IDENTITY", false, "");

  private static final Set<String> HASHES =
      Set.of("Sha1", "Sha2", "Md5", "XxHash64", "Murmur3Hash", "HiveHash", "Crc32", "Mask");

  /** Wrappers that do not change the value. */
  private static final Set<String> TRANSPARENT =
      Set.of("KnownNotNull", "KnownNotContainsNull", "AssertNotNull", "UpCast", "Coalesce");

  static Transformation indirect(String subtype) {
    return new Transformation("INDIRECT", subtype, false, "");
  }

  boolean isDirect() {
    return type.equals("DIRECT");
  }

  /** This transformation, applied to the children of an expression. */
  Transformation inside(Expression expression) {
    String name = expression.getClass().getSimpleName();
    if (TRANSPARENT.contains(name) || isTextToText(expression)) {
      return this;
    }
    if (expression instanceof AggregateExpression aggregate) {
      return through("AGGREGATION", aggregate.aggregateFunction() instanceof Count);
    }
    return through("TRANSFORMATION", HASHES.contains(name));
  }

  /** This transformation after one more step; an aggregation stays one. */
  Transformation through(String step, boolean masks) {
    if (!isDirect()) {
      return this;
    }
    String combined = subtype.equals("AGGREGATION") ? subtype : step;
    return new Transformation(type, combined, masking || masks, description);
  }

  /** This transformation after a step whose code Spark can't analyze. */
  Transformation throughOpaque(String step) {
    if (!isDirect()) {
      return this;
    }
    Transformation changed = through("TRANSFORMATION", false);
    String reason = step + " is opaque: it may depend on any of its inputs";
    return new Transformation(changed.type(), changed.subtype(), changed.masking(), reason);
  }

  private static boolean isTextToText(Expression expression) {
    return expression instanceof Cast cast
        && isText(cast.dataType())
        && isText(cast.child().dataType());
  }

  private static boolean isText(DataType type) {
    return type instanceof StringType || type instanceof BinaryType;
  }
}
