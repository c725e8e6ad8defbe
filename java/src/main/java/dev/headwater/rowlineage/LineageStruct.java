package dev.headwater.rowlineage;

import static dev.headwater.rowlineage.Catalyst.number;
import static dev.headwater.rowlineage.Catalyst.text;

import java.util.ArrayList;
import java.util.List;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.Coalesce;
import org.apache.spark.sql.catalyst.expressions.CreateNamedStruct;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import scala.Option;
import scala.collection.Seq;

/**
 * The lineage of a row as expressions: the struct of `spark/source.py`.
 *
 * <p>After a step that makes several rows of one, it has a ninth field with the number of the row.
 */
final class LineageStruct {
  /** Name of the column between the sources and the sink. */
  static final String COLUMN = "__headwater_lineage";

  static final int TOPIC = 0;
  static final int PARTITION = 1;
  static final int OFFSET = 2;
  static final int PARENTS = 3;
  static final int UNLISTED = 4;
  static final int ALL_PARENTS_HASH = 5;
  static final int HEADERS = 6;
  static final int REST = 7;
  static final int ORDINAL = 8;
  static final int FIELDS = 8;

  static final DataType HEADERS_TYPE =
      DataTypes.createArrayType(
          new StructType().add("key", DataTypes.StringType).add("value", DataTypes.BinaryType));
  static final StructType TYPE =
      new StructType()
          .add("topic", DataTypes.StringType)
          .add("partition", DataTypes.IntegerType)
          .add("offset", DataTypes.LongType)
          .add("parents", DataTypes.StringType)
          .add("unlisted", DataTypes.LongType)
          .add("all_parents_hash", DataTypes.StringType)
          .add("headers", HEADERS_TYPE)
          .add("rest", DataTypes.StringType);
  static final StructType NUMBERED_TYPE = TYPE.add("ordinal", DataTypes.LongType);

  private LineageStruct() {}

  /** The record itself, from the columns of Spark's Kafka source. */
  static Expression ofRecord(Seq<Attribute> columns) {
    Expression[] values = new Expression[FIELDS];
    values[TOPIC] = Catalyst.column(columns, "topic");
    values[PARTITION] = Catalyst.column(columns, "partition");
    values[OFFSET] = Catalyst.column(columns, "offset");
    values[HEADERS] = Catalyst.column(columns, "headers");
    return struct(values);
  }

  /** Parents that are not known. */
  static Expression unknown() {
    Expression[] values = new Expression[FIELDS];
    values[PARENTS] = text("?");
    return struct(values);
  }

  /** The lineage of a row that may have further parents. */
  static Expression withUnknown(Expression lineage) {
    return Catalyst.call(LineageFunctions.class, "withUnknown", TYPE, true, lineage);
  }

  /** Of rows that do not come from Kafka. */
  static Expression none(boolean numbered) {
    return Catalyst.nothing(numbered ? NUMBERED_TYPE : TYPE);
  }

  static Expression joined(Expression left, Expression right) {
    if (isNumbered(left) || isNumbered(right)) {
      return Catalyst.call(
          LineageFunctions.class,
          "join",
          NUMBERED_TYPE,
          true,
          withOrdinal(left),
          withOrdinal(right));
    }
    return Catalyst.call(LineageFunctions.class, "join", TYPE, true, left, right);
  }

  /** The row with this position among those of one row before. */
  static Expression numbered(Expression lineage, Expression position) {
    Expression[] values = fieldsOf(lineage, FIELDS + 1);
    values[ORDINAL] =
        Catalyst.call(
            LineageFunctions.class,
            "ordinal",
            DataTypes.LongType,
            true,
            orZero(ordinal(lineage)),
            orZero(Catalyst.cast(position, DataTypes.LongType)));
    return struct(values);
  }

  /** The lineage with a ninth field, whatever it has now. */
  static Expression withOrdinal(Expression lineage) {
    if (isNumbered(lineage)) {
      return lineage;
    }
    Expression[] values = fieldsOf(lineage, FIELDS + 1);
    values[ORDINAL] = number(0);
    return struct(values);
  }

  /**
   * In the form in which state contains it, whatever the steps before: always nine fields, all of
   * them nullable.
   */
  static Expression inState(Expression lineage) {
    return Catalyst.call(LineageFunctions.class, "withOrdinal", NUMBERED_TYPE, true, lineage);
  }

  /**
   * Exactly the fields that the sink reads. A function of the complete struct: if only some fields
   * of it were read, the optimizer would replace the struct by these in the state of a join.
   */
  static Expression withoutOrdinal(Expression lineage) {
    return isNumbered(lineage)
        ? Catalyst.call(LineageFunctions.class, "withoutOrdinal", TYPE, true, lineage)
        : lineage;
  }

  static Expression ordinal(Expression lineage) {
    return isNumbered(lineage) ? field(lineage, ORDINAL) : number(0);
  }

  static boolean isNumbered(Expression lineage) {
    return ((StructType) lineage.dataType()).length() > FIELDS;
  }

  private static Expression orZero(Expression value) {
    return value.nullable() ? new Coalesce(Catalyst.seq(List.of(value, number(0)))) : value;
  }

  private static Expression[] fieldsOf(Expression lineage, int count) {
    Expression[] values = new Expression[count];
    for (int i = 0; i < FIELDS; i++) {
      values[i] = field(lineage, i);
    }
    return values;
  }

  private static Expression field(Expression lineage, int number) {
    return new GetStructField(lineage, number, Option.empty());
  }

  private static Expression struct(Expression... values) {
    List<Expression> children = new ArrayList<>();
    for (int i = 0; i < values.length; i++) {
      StructField field = NUMBERED_TYPE.apply(i);
      Expression value = values[i];
      if (value == null) {
        value = i == UNLISTED ? number(0) : Catalyst.nothing(field.dataType());
      }
      children.add(text(field.name()));
      children.add(value);
    }
    return new CreateNamedStruct(Catalyst.seq(children));
  }
}
