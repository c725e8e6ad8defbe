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
 * How a column becomes one of the output, or decides about it, in OpenLineage's words; masked, its
 * values can't be read back.
 */
record Transformation(String type, String subtype, boolean masking, String description) {
  static final Transformation IDENTITY = new Transformation("DIRECT", "IDENTITY", false, "");

  private static final Set<String> HASHES =
      Set.of("Sha1", "Sha2", "Md5", "XxHash64", "Murmur3Hash", "HiveHash", "Crc32", "Mask");

  /** Around a value, without changing it. */
  private static final Set<String> TRANSPARENT =
      Set.of("KnownNotNull", "KnownNotContainsNull", "AssertNotNull", "UpCast", "Coalesce");

  static Transformation indirect(String subtype) {
    return new Transformation("INDIRECT", subtype, false, "");
  }

  boolean isDirect() {
    return type.equals("DIRECT");
  }

  /** What this is for the columns that an expression is made of. */
  Transformation inside(Expression expression) {
    String name = expression.getClass().getSimpleName();
    if (TRANSPARENT.contains(name) || isTextAsText(expression)) {
      return this;
    }
    if (expression instanceof AggregateExpression aggregate) {
      return through("AGGREGATION", aggregate.aggregateFunction() instanceof Count);
    }
    return through("TRANSFORMATION", HASHES.contains(name));
  }

  /** The same where a step lies between; what was gathered stays that. */
  Transformation through(String step, boolean masks) {
    if (!isDirect()) {
      return this;
    }
    String now = subtype.equals("AGGREGATION") ? subtype : step;
    return new Transformation(type, now, masking || masks, description);
  }

  /** The same behind a step whose code Spark can't see. */
  Transformation behind(String opaqueStep) {
    if (!isDirect()) {
      return this;
    }
    Transformation way = through("TRANSFORMATION", false);
    String why = opaqueStep + " is opaque: any of its inputs may be in it";
    return new Transformation(way.type(), way.subtype(), way.masking(), why);
  }

  private static boolean isTextAsText(Expression expression) {
    return expression instanceof Cast cast
        && isText(cast.dataType())
        && isText(cast.child().dataType());
  }

  private static boolean isText(DataType type) {
    return type instanceof StringType || type instanceof BinaryType;
  }
}
