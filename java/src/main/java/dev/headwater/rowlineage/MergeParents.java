package dev.headwater.rowlineage;

import static dev.headwater.compat.CollectionConverters.asJava;
import static dev.headwater.compat.CollectionConverters.asScala;

import dev.headwater.compat.ListAggregate;
import dev.headwater.compat.SparkSql;
import java.io.Serializable;
import java.util.List;
import java.util.Objects;
import org.apache.spark.sql.Column;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.GetStructField;
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression;
import org.apache.spark.sql.catalyst.expressions.aggregate.ImperativeAggregate;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;
import scala.collection.Seq;

/**
 * The aggregate function of `merge_lineage`: the lineage of a group of rows, with all parents.
 *
 * <p>It reads fields of the column `lineage`, not the struct, so that Spark removes the struct and
 * its headers where it can: not below a watermark. Rows without lineage have no parents.
 */
public final class MergeParents extends ListAggregate<ParentSet> implements Serializable {
  private static final long serialVersionUID = 1;
  private static final List<String> READ =
      List.of("topic", "partition", "offset", "parents", "rest");

  private final scala.collection.immutable.List<Expression> fields;
  private final int maxListed;
  private final int mutableAggBufferOffset;
  private final int inputAggBufferOffset;
  private final Expression topic;
  private final Expression partition;
  private final Expression offset;
  private final Expression parents;
  private final Expression rest;

  /** Spark copies expressions with this constructor: its arguments are those of the product. */
  public MergeParents(
      Seq<Expression> fields, int maxListed, int mutableAggBufferOffset, int inputAggBufferOffset) {
    this.maxListed = maxListed;
    this.mutableAggBufferOffset = mutableAggBufferOffset;
    this.inputAggBufferOffset = inputAggBufferOffset;
    List<Expression> read = asJava(fields);
    this.fields = asScala(read);
    topic = read.get(0);
    partition = read.get(1);
    offset = read.get(2);
    parents = read.get(3);
    rest = read.get(4);
  }

  /** The aggregate of a resolved column `lineage`, for a plan. */
  public static AggregateExpression of(Expression lineage) {
    StructType type = (StructType) lineage.dataType();
    return aggregate(
        READ.stream()
            .<Expression>map(
                name -> new GetStructField(lineage, type.fieldIndex(name), Option.apply(name)))
            .toList(),
        MergedLineage.MAX_LISTED);
  }

  /** The aggregate as a column, for Python. */
  public static Column column(Column lineage, int maxListed) {
    return SparkSql.column(
        aggregate(
            READ.stream().map(name -> SparkSql.expression(lineage.getField(name))).toList(),
            maxListed));
  }

  private static AggregateExpression aggregate(List<Expression> fields, int maxListed) {
    return new MergeParents(asScala(fields), maxListed, 0, 0).toAggregateExpression();
  }

  @Override
  public ParentSet createAggregationBuffer() {
    return new ParentSet();
  }

  @Override
  public ParentSet update(ParentSet all, InternalRow row) {
    UTF8String text = (UTF8String) parents.eval(row);
    if (text != null) {
      all.add(text);
    } else {
      UTF8String name = (UTF8String) topic.eval(row);
      Integer number = (Integer) partition.eval(row);
      Long position = (Long) offset.eval(row);
      if (name != null && number != null && position != null) {
        all.add(name, number, position);
      }
    }
    UTF8String more = (UTF8String) rest.eval(row);
    if (more != null) {
      all.add(more);
    }
    return all;
  }

  @Override
  public ParentSet merge(ParentSet all, ParentSet more) {
    all.add(more);
    return all;
  }

  @Override
  public Object eval(ParentSet all) {
    return MergedLineage.of(all, maxListed);
  }

  @Override
  public byte[] serialize(ParentSet all) {
    return ParentState.write(all);
  }

  @Override
  public ParentSet deserialize(byte[] bytes) {
    return ParentState.read(bytes);
  }

  @Override
  public TypeCheckResult checkInputDataTypes() {
    for (int i = 0; i < READ.size(); i++) {
      DataType expected = LineageStruct.TYPE.apply(READ.get(i)).dataType();
      DataType type = asJava(fields).get(i).dataType();
      // Texts may have a collation.
      if (expected instanceof StringType ? !(type instanceof StringType) : !type.equals(expected)) {
        return new TypeCheckResult.TypeCheckFailure(
            "lineage." + READ.get(i) + " must be " + expected.simpleString());
      }
    }
    return TypeCheckResult.TypeCheckSuccess$.MODULE$;
  }

  @Override
  public DataType dataType() {
    return LineageStruct.TYPE;
  }

  @Override
  public boolean nullable() {
    return false;
  }

  @Override
  public String prettyName() {
    return "merge_lineage";
  }

  @Override
  public scala.collection.immutable.List<Expression> children() {
    return fields;
  }

  @Override
  protected Expression withChildren(List<Expression> children) {
    return new MergeParents(
        asScala(children), maxListed, mutableAggBufferOffset, inputAggBufferOffset);
  }

  @Override
  public int mutableAggBufferOffset() {
    return mutableAggBufferOffset;
  }

  @Override
  public ImperativeAggregate withNewMutableAggBufferOffset(int newOffset) {
    return new MergeParents(fields, maxListed, newOffset, inputAggBufferOffset);
  }

  @Override
  public int inputAggBufferOffset() {
    return inputAggBufferOffset;
  }

  @Override
  public ImperativeAggregate withNewInputAggBufferOffset(int newOffset) {
    return new MergeParents(fields, maxListed, mutableAggBufferOffset, newOffset);
  }

  @Override
  public int productArity() {
    return 4;
  }

  @Override
  public Object productElement(int index) {
    return switch (index) {
      case 0 -> fields;
      case 1 -> maxListed;
      case 2 -> mutableAggBufferOffset;
      case 3 -> inputAggBufferOffset;
      default -> throw new IndexOutOfBoundsException(index);
    };
  }

  @Override
  public boolean canEqual(Object other) {
    return other instanceof MergeParents;
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof MergeParents that
        && fields.equals(that.fields)
        && maxListed == that.maxListed
        && mutableAggBufferOffset == that.mutableAggBufferOffset
        && inputAggBufferOffset == that.inputAggBufferOffset;
  }

  @Override
  public int hashCode() {
    return Objects.hash(fields, maxListed, mutableAggBufferOffset, inputAggBufferOffset);
  }
}
